// What the warps of a kernel access: in totals, counted on the real node by a policy of its
// kernels, on the simulated node by the recorder; and one by one, taken down on the real node.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

#include "interlace/kernel.hpp"

namespace interlace::kernel {

enum class memory_space : std::uint8_t { local, replicated, unified, reduced, shared };

// A reduction is an atomic access.
enum class traced_access : std::uint8_t { load, store, atomic };

// An instruction of a warp that touches k lines adds k lines and as many lanes as take part. A lane
// is in the line (128 bytes on the real node, an L1 line of the simulated machine) where its
// element begins. A load that the warp or the block shares is one of all lanes of each warp. Shared
// memory is not counted.
struct trace_totals {
  static constexpr std::size_t kinds = 3;
  static constexpr std::size_t spaces = 4;

  struct count {
    std::uint64_t lines = 0;
    std::uint64_t lanes = 0;
    friend bool operator==(const count&, const count&) = default;
    count& operator+=(const count& other) {
      lines += other.lines;
      lanes += other.lanes;
      return *this;
    }
  };
  std::array<std::array<count, spaces>, kinds> counts{};  // [traced_access][memory_space]
  // Of all lanes, by kind: what compute names and what a warp's sums and minima take. Only the
  // simulated node counts them.
  std::array<std::uint64_t, operation_kinds> operations{};

  count& of(traced_access kind, memory_space space) {
    return counts[static_cast<std::size_t>(kind)][static_cast<std::size_t>(space)];
  }
  const count& of(traced_access kind, memory_space space) const {
    return counts[static_cast<std::size_t>(kind)][static_cast<std::size_t>(space)];
  }
  trace_totals& operator+=(const trace_totals& other) {
    for (std::size_t kind = 0; kind < kinds; ++kind) {
      for (std::size_t s = 0; s < spaces; ++s) counts[kind][s] += other.counts[kind][s];
    }
    for (std::size_t k = 0; k < operation_kinds; ++k) operations[k] += other.operations[k];
    return *this;
  }
  friend bool operator==(const trace_totals&, const trace_totals&) = default;
};

// An instruction of a warp that accesses memory.
struct warp_access {
  std::uint64_t block = 0;
  std::uint32_t warp = 0;  // in its block
  traced_access kind = traced_access::load;
  std::uint32_t bytes = 0;                        // of each lane
  std::uint32_t lanes = 0;                        // that take part, one bit each
  const unsigned long long* addresses = nullptr;  // of those, in their order
};
using access_taker = std::function<void(const warp_access&)>;

// Memory that instructions are written to: the block, a packed word, and an address for each lane.
// Instructions of one warp are in its order.
struct access_buffer {
  static constexpr std::uint32_t head_words = 2;
  unsigned long long* words = nullptr;
  unsigned long long* used = nullptr;  // words that were asked for
  unsigned long long capacity = 0;

  INTERLACE_HOST_DEVICE static constexpr unsigned long long pack(traced_access kind,
                                                                 std::uint32_t warp,
                                                                 std::uint32_t bytes,
                                                                 std::uint32_t lanes) {
    return static_cast<unsigned long long>(kind) << 56U |
           static_cast<unsigned long long>(bytes) << 48U |
           static_cast<unsigned long long>(warp) << 32U | lanes;
  }
  // The instruction that begins at a word, and how many words it has.
  static std::pair<warp_access, std::uint32_t> unpack(const unsigned long long* entry) {
    warp_access a;
    a.block = entry[0];
    a.kind = static_cast<traced_access>(entry[1] >> 56U);
    a.bytes = static_cast<std::uint32_t>(entry[1] >> 48U & 0xffU);
    a.warp = static_cast<std::uint32_t>(entry[1] >> 32U & 0xffffU);
    a.lanes = static_cast<std::uint32_t>(entry[1]);
    a.addresses = entry + head_words;
    return {a, head_words + static_cast<std::uint32_t>(__builtin_popcount(a.lanes))};
  }
};

}  // namespace interlace::kernel
