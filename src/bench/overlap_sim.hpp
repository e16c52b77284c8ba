// The overlap microbenchmark on a simulated machine.
#pragma once

#include <cstdint>
#include <functional>

#include "interlace/kernel/region.hpp"
#include "interlace/machine/machine.hpp"

namespace interlace::bench {

struct simulated_overlap {
  std::uint32_t peers = 1;
  std::uint64_t bytes = std::uint64_t{256} << 20U;
  // The mechanism, the chunks, the agent, the ranges and whether there are transfers.
  kernel::region_options how;
  // The number of rounds of computation, which take simulated time but compute nothing.
  std::uint32_t rounds = 0;
  std::function<void()> check_interrupt;
};

// The time of an epoch in seconds. Throws model_error if a device's replica differs from the
// result.
double overlap_on_sim(const simulated_overlap& request, const machine::machine& described);

// The number of useful bytes as a fraction of all bytes on the link, for stores from the first GPU
// to the second (PROACT, Fig. 2). Each store has `bytes` bytes, at most a line, and is aligned to
// its size.
double store_goodput(const machine::machine& described, std::uint32_t bytes);

}  // namespace interlace::bench
