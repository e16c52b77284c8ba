// Memory accesses of a kernel's warps. On the real node, a policy of kernels counts the totals. On
// the simulated node, the recorder counts them. Only the real node records single accesses.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

#include "interlace/kernel.hpp"

namespace interlace::kernel {

enum class memory_space : std::uint8_t { local, replicated, unified, reduced, shared };

// A reduction counts as an atomic access.
enum class traced_access : std::uint8_t { load, store, atomic };

// The counts of accesses. An instruction of a warp that touches k lines counts as k accesses, and
// each lane that takes part in the instruction counts once. A lane belongs to the line in which its
// element begins. A line has 128 bytes on the real node. On a simulated machine it is a line of the
// L1. If a warp or a whole block shares a load, the load counts for each warp as one load by all
// lanes. Accesses to shared memory are not counted.
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
  // The operations of all lanes, by kind: the operations in calls of `compute`, and the operations
  // of warps' sums and minima. Only the simulated node counts operations.
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

// One memory access by one instruction of a warp.
struct warp_access {
  std::uint64_t block = 0;
  std::uint32_t warp = 0;  // number of the warp in its block
  traced_access kind = traced_access::load;
  std::uint32_t bytes = 0;  // number of bytes of each lane
  std::uint32_t lanes = 0;  // one bit for each lane that takes part
  // Addresses of these lanes, in ascending order of lanes.
  const unsigned long long* addresses = nullptr;
};
using access_taker = std::function<void(const warp_access&)>;

// Memory for recorded instructions. Each instruction takes a word for its block, a packed word, and
// one address for each lane. The instructions of one warp are in program order.
struct access_buffer {
  static constexpr std::uint32_t head_words = 2;
  unsigned long long* words = nullptr;
  unsigned long long* used = nullptr;  // number of words that warps have requested
  unsigned long long capacity = 0;

  INTERLACE_HOST_DEVICE static constexpr unsigned long long pack(traced_access kind,
                                                                 std::uint32_t warp,
                                                                 std::uint32_t bytes,
                                                                 std::uint32_t lanes) {
    return static_cast<unsigned long long>(kind) << 56U |
           static_cast<unsigned long long>(bytes) << 48U |
           static_cast<unsigned long long>(warp) << 32U | lanes;
  }
  // The instruction that begins at a word, and the number of words that the instruction takes.
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
