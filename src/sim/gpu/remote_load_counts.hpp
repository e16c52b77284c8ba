// Counts of kernels' loads on machines where part of the memory belongs to other GPUs. The counts
// say how many loads were remote, how much of a remote line the loads use, how many remote loads
// hit in the L1, and how a mechanism served the other remote loads.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "sim/engine/event_queue.hpp"

namespace interlace::sim {

// An access is one line that one instruction of a warp touches. Loads through scalar caches are not
// counted.
struct remote_load_counts {
  std::uint64_t local = 0;
  std::uint64_t remote = 0;
  std::uint64_t hits = 0;   // remote loads that hit in the L1
  std::uint64_t words = 0;  // 4-byte words of remote lines that lanes read
  // number of remote loads for each number of words that lanes read; the index is that number minus
  // one
  std::array<std::uint64_t, 32> by_words{};
  std::uint64_t local_stores = 0;
  std::uint64_t remote_stores = 0;
  std::uint64_t instructions = 0;  // load instructions whose lines have all arrived
  // For each instruction that `instructions` counts, the time from the load's start to the arrival
  // of its last line. This is the sum of these times.
  picoseconds waited = 0;
  // The sum of the times that requests to other devices, and their replies, spend on links.
  picoseconds in_links = 0;
  // Loads that reached the second-level cache, including loads from other devices.
  std::uint64_t l2_loads = 0;
  std::uint64_t l2_hits = 0;

  std::uint64_t bypassed = 0;  // remote loads that did not look up the L1
  // Bypassed loads whose pieces were already being fetched by an entry.
  std::uint64_t mask_hits = 0;
  // Bypassed loads whose line had an entry, but an entry with other pieces.
  std::uint64_t mask_misses = 0;
  std::uint64_t coalesced = 0;   // packets of pieces that this GPU received
  std::uint64_t timeouts = 0;    // packets of pieces that were sent because of a timeout
  std::uint64_t pieces = 0;      // number of pieces in all packets of pieces
  std::uint64_t cache_hits = 0;  // hits in the RDMA cache
  // Misses in the RDMA cache. They include loads that wait for a line that is already in flight.
  std::uint64_t cache_misses = 0;
};

}  // namespace interlace::sim
