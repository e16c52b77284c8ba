// Counts of the address translations of kernels.
#pragma once

#include <cstdint>

#include "sim/engine/event_queue.hpp"

namespace interlace::sim {

// Every access of a compute unit (one line that one instruction of a warp touches) is looked up
// once in an L1 TLB.
struct translation_counts {
  std::uint64_t l1_hits = 0;
  std::uint64_t l1_misses = 0;  // misses, including misses on a page that is already in flight
  std::uint64_t l2_hits = 0;    // number of page requests of L1 TLBs that the L2 TLB could answer
  std::uint64_t l2_misses = 0;
  std::uint64_t walks = 0;       // requests to the host
  std::uint64_t payload = 0;     // payload of requests and replies
  std::uint64_t wire = 0;        // all bytes of requests and replies
  picoseconds walk_latency = 0;  // sum of the times from a request to its answer
};

}  // namespace interlace::sim
