// Counts of the address translations of kernels.
#pragma once

#include <cstdint>

#include "sim/engine/event_queue.hpp"

namespace interlace::sim {

// Every access of a compute unit (a warp's instruction and a line) is looked up once in an L1 TLB.
struct translation_counts {
  std::uint64_t l1_hits = 0;
  std::uint64_t l1_misses = 0;  // includes accesses whose page is already in flight
  std::uint64_t l2_hits = 0;    // pages that L1 TLBs requested
  std::uint64_t l2_misses = 0;
  std::uint64_t walks = 0;       // requests to the host
  std::uint64_t payload = 0;     // of requests and replies
  std::uint64_t wire = 0;        // of requests and replies
  picoseconds walk_latency = 0;  // sum of the time from request to answer
};

}  // namespace interlace::sim
