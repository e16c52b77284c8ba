// What translating the addresses of kernels took.
#pragma once

#include <cstdint>

#include "sim/engine/event_queue.hpp"

namespace interlace::sim {

// Every access of a compute unit (a warp's instruction and a line) is looked up once in an L1 TLB.
struct translation_counts {
  std::uint64_t l1_hits = 0;
  std::uint64_t l1_misses = 0;  // those that find their page under way included
  std::uint64_t l2_hits = 0;    // pages that L1 TLBs asked for
  std::uint64_t l2_misses = 0;
  std::uint64_t walks = 0;       // requests to the host
  std::uint64_t payload = 0;     // of requests and replies
  std::uint64_t wire = 0;        // of those
  picoseconds walk_latency = 0;  // from the request to the answer, the sum
};

}  // namespace interlace::sim
