// AES-256 (FIPS 197) of independent blocks, from Hetero-Mark. A lane encrypts one block of 16 bytes
// and looks up the block's bytes in the S-box. All lanes use the same round keys.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "interlace/base/errors.hpp"
#include "workload/shared/unified_program.hpp"

namespace interlace::workload {

inline constexpr std::uint32_t aes_rounds = 14;
inline constexpr std::uint32_t aes_key_bytes = 32;

// Multiplies by x in GF(2^8), modulo x^8 + x^4 + x^3 + x + 1 (FIPS 197, section 4.2).
INTERLACE_HOST_DEVICE std::uint8_t aes_times_x(std::uint8_t a) {
  const std::uint32_t wide = a;
  return static_cast<std::uint8_t>((wide << 1U) ^ ((wide >> 7U) * 0x1bU));
}

// The substitution table (section 5.1.1). An entry is the inverse in GF(2^8), followed by an affine
// map of the bits of the inverse.
inline std::array<std::uint8_t, 256> aes_substitutions() {
  std::array<std::uint8_t, 256> table{};
  // p runs through all values except 0. Each step multiplies p by 3. q is the inverse of p.
  std::uint8_t p = 1;
  std::uint8_t q = 1;
  do {
    p = static_cast<std::uint8_t>(p ^ aes_times_x(p));
    q = static_cast<std::uint8_t>(q ^ (q << 1U));
    q = static_cast<std::uint8_t>(q ^ (q << 2U));
    q = static_cast<std::uint8_t>(q ^ (q << 4U));
    if ((q & 0x80U) != 0) q = static_cast<std::uint8_t>(q ^ 0x09U);
    std::uint32_t mapped = q;
    for (std::uint32_t k = 1; k <= 4; ++k) {
      mapped ^= (static_cast<std::uint32_t>(q) << k | static_cast<std::uint32_t>(q) >> (8 - k));
    }
    table[p] = static_cast<std::uint8_t>((mapped & 0xffU) ^ 0x63U);
  } while (p != 1);
  table[0] = 0x63;
  return table;
}

// The round keys (section 5.2): rounds + 1 keys of 16 bytes.
inline std::vector<std::uint8_t> aes_round_keys(const std::vector<std::uint8_t>& key) {
  const auto table = aes_substitutions();
  std::vector<std::uint8_t> keys = key;
  std::uint8_t constant = 1;
  while (keys.size() < 16 * (aes_rounds + 1)) {
    std::array<std::uint8_t, 4> word{};
    for (std::size_t k = 0; k < 4; ++k) word[k] = keys[keys.size() - 4 + k];
    const std::size_t place = keys.size() % aes_key_bytes;
    if (place == 0) {
      word = {static_cast<std::uint8_t>(table[word[1]] ^ constant), table[word[2]], table[word[3]],
              table[word[0]]};
      constant = aes_times_x(constant);
    } else if (place == 16) {
      for (std::uint8_t& b : word) b = table[b];
    }
    for (const std::uint8_t b : word) {
      keys.push_back(static_cast<std::uint8_t>(b ^ keys[keys.size() - aes_key_bytes]));
    }
  }
  return keys;
}

struct aes_kernel {
  static constexpr std::uint32_t threads = 64;

  struct state {
    std::uint8_t byte[16];
  };

  unified<std::uint8_t> text;
  unified<std::uint8_t> cipher;
  unified<std::uint8_t> substitutions;
  // Four words for each round, with the first byte in the highest bits.
  unified<std::uint32_t> round_keys;

  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    auto states = lane_state<state>(block);
    block.each_warp([&](auto warp) {
      warp.each([&](auto lane) {
        const std::uint64_t first = lane.global_index() * 16;
        if (first >= text.size) return;
        for (auto k : lane.range(0U, 16U)) states[lane].byte[k] = lane.load(text, first + k);
      });
      for (std::uint32_t round = 0; round <= aes_rounds; ++round) {
        std::uint32_t key[4];
        for (std::uint32_t c = 0; c < 4; ++c) key[c] = warp.load(round_keys, round * 4 + c);
        warp.each([&](auto lane) {
          if (lane.global_index() * 16 >= text.size) return;
          state& s = states[lane];
          if (round != 0) {
            state shifted{};
            for (auto k : lane.range(0U, 16U)) {
              const auto at = static_cast<std::uint32_t>(k);
              // ShiftRows: row r of column c comes from column c + r.
              const std::uint32_t from = (at + at % 4 * 4) % 16;
              shifted.byte[at] = lane.load(substitutions, s.byte[from]);
            }
            s = shifted;
            if (round != aes_rounds) mix_columns(s);
            lane.compute(operation::integer, 260);
          }
          for (std::uint32_t k = 0; k < 16; ++k) {
            s.byte[k] = static_cast<std::uint8_t>(s.byte[k] ^ (key[k / 4] >> (24 - k % 4 * 8)));
          }
          lane.compute(operation::integer, 32);
        });
      }
      warp.each([&](auto lane) {
        const std::uint64_t first = lane.global_index() * 16;
        if (first >= text.size) return;
        for (auto k : lane.range(0U, 16U)) lane.store(cipher, first + k, states[lane].byte[k]);
      });
    });
  }

  static INTERLACE_HOST_DEVICE void mix_columns(state& s) {
    for (std::uint32_t c = 0; c < 16; c += 4) {
      std::uint8_t* column = s.byte + c;
      const auto all = static_cast<std::uint8_t>(column[0] ^ column[1] ^ column[2] ^ column[3]);
      const std::uint8_t first = column[0];
      for (std::uint32_t r = 0; r < 4; ++r) {
        const std::uint8_t next = r == 3 ? first : column[r + 1];
        const auto doubled = aes_times_x(static_cast<std::uint8_t>(column[r] ^ next));
        column[r] = static_cast<std::uint8_t>(column[r] ^ all ^ doubled);
      }
    }
  }
};

template <class Node>
class aes;

struct aes_problem {
  static constexpr const char* summary = "an encryption by AES-256";
  static constexpr std::array arguments{"text", "key"};

  std::vector<std::uint8_t> text;  // whole blocks of 16 bytes each
  std::vector<std::uint8_t> key;   // 32 bytes

  static aes_problem make(const array_view<std::uint8_t>& text,
                          const array_view<std::uint8_t>& key) {
    return {values_of(text), values_of(key)};
  }

  template <class Node>
  aes<Node> on(Node& node, const unified_placement& placement) const {
    return {node, *this, placement};
  }
};

template <class Node>
class aes {
 public:
  aes(Node& node, const aes_problem& data, const unified_placement& placement)
      : node_(node), blocks_(placement.blocks) {
    if (data.text.empty() || data.text.size() % 16 != 0 || data.key.size() != aes_key_bytes) {
      throw usage_error(
          "AES-256 takes a text of 16-byte blocks and a key of 32 bytes; the text has " +
          std::to_string(data.text.size()) + " bytes and the key " +
          std::to_string(data.key.size()));
    }
    const auto table = aes_substitutions();
    const auto bytes = aes_round_keys(data.key);
    std::vector<std::uint32_t> words(bytes.size() / 4);
    for (std::size_t k = 0; k < bytes.size(); ++k) {
      words[k / 4] = words[k / 4] << 8U | bytes[k];
    }
    const auto own = kernel::page_placement::contiguous();
    kernel_.text = put_unified(node, data.text, placement.of(own));
    kernel_.cipher =
        node.template allocate_unified<std::uint8_t>(data.text.size(), placement.of(own));
    kernel_.round_keys = put_unified(node, words, placement.of({}));
    kernel_.substitutions =
        put_unified(node, std::vector<std::uint8_t>(table.begin(), table.end()), placement.of({}));
  }

  void enqueue() {
    const std::uint64_t blocks =
        (kernel_.text.size / 16 + aes_kernel::threads - 1) / aes_kernel::threads;
    node_.launch_over(kernel_, {blocks, aes_kernel::threads, 0}, blocks_);
    node_.exchange();
  }
  // The bytes of the encrypted text.
  std::vector<float> result() const {
    const std::vector<std::uint8_t> bytes = node_.download(kernel_.cipher);
    return {bytes.begin(), bytes.end()};
  }

 private:
  Node& node_;
  kernel::block_placement blocks_;
  aes_kernel kernel_;
};

}  // namespace interlace::workload
