// Counts of kernels' loads where some of the memory belongs to other GPUs: how many loads are
// remote, how much of a remote line they use, how often the L1 has it, and how a mechanism served
// them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "sim/engine/event_queue.hpp"

namespace interlace::sim {

// An access is a warp's instruction together with one line that it touches. Loads through scalar
// caches are not counted.
struct remote_load_counts {
  std::uint64_t local = 0;
  std::uint64_t remote = 0;
  std::uint64_t hits = 0;                    // remote loads that hit in the L1
  std::uint64_t words = 0;                   // 4-byte words that lanes want of remote lines
  std::array<std::uint64_t, 32> by_words{};  // remote loads by the number of such words, minus one
  std::uint64_t local_stores = 0;
  std::uint64_t remote_stores = 0;
  std::uint64_t instructions = 0;  // loads whose lines have all arrived
  picoseconds waited = 0;          // sum of the time from a load's start until then
  picoseconds in_links = 0;        // sum over requests and replies to other devices
  // loads that reached the second level, including other devices' loads
  std::uint64_t l2_loads = 0;
  std::uint64_t l2_hits = 0;

  std::uint64_t bypassed = 0;  // remote loads that did not look into the L1
  // bypassed loads served by an entry that already fetches their pieces
  std::uint64_t mask_hits = 0;
  std::uint64_t mask_misses = 0;  // bypassed loads whose line had an entry with other pieces
  std::uint64_t coalesced = 0;    // packets of pieces received
  std::uint64_t timeouts = 0;     // coalesced packets sent because of a timeout
  std::uint64_t pieces = 0;       // pieces in these packets
  std::uint64_t cache_hits = 0;   // hits in the RDMA cache
  // misses in it, including loads that wait for a line already in flight
  std::uint64_t cache_misses = 0;
};

}  // namespace interlace::sim
