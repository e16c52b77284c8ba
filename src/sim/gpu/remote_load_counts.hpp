// Counts of kernels' loads on machines where part of the memory belongs to other GPUs: the remote
// loads, the part of a remote line that they use, their hits in the L1, and the ways in which a
// mechanism served them.
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
  std::uint64_t hits = 0;                    // remote loads that hit in the L1
  std::uint64_t words = 0;                   // 4-byte words that lanes want of remote lines
  std::array<std::uint64_t, 32> by_words{};  // number of remote loads; the index is their number of
                                             // such words, minus one
  std::uint64_t local_stores = 0;
  std::uint64_t remote_stores = 0;
  std::uint64_t instructions = 0;  // load instructions whose lines have all arrived
  picoseconds waited = 0;    // sum of the times from a load's start to its last line's arrival
  picoseconds in_links = 0;  // sum of the times of requests and replies to other devices
  // Loads that reached the second-level cache, including loads of other devices.
  std::uint64_t l2_loads = 0;
  std::uint64_t l2_hits = 0;

  std::uint64_t bypassed = 0;  // remote loads that did not look into the L1
  // Bypassed loads for which an entry already fetches the pieces.
  std::uint64_t mask_hits = 0;
  std::uint64_t mask_misses = 0;  // bypassed loads whose line had an entry with other pieces
  std::uint64_t coalesced = 0;    // packets of pieces that were received
  std::uint64_t timeouts = 0;     // coalesced packets sent because of a timeout
  std::uint64_t pieces = 0;       // pieces in these packets
  std::uint64_t cache_hits = 0;   // hits in the RDMA cache
  // Misses in the RDMA cache, including loads that wait for a line that is already in flight.
  std::uint64_t cache_misses = 0;
};

}  // namespace interlace::sim
