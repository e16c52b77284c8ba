// The overlap microbenchmark on a simulated machine.
#pragma once

#include <cstdint>
#include <functional>

#include "kernel/region.hpp"
#include "machine/machine.hpp"

namespace interlace::bench {

struct simulated_overlap {
  std::uint32_t peers = 1;
  std::uint64_t bytes = std::uint64_t{256} << 20U;
  kernel::region_options how;  // mechanism, chunks, agent, ranges, transfers
  std::uint32_t rounds = 0;    // of computation; they take time, but are not done
  std::function<void()> check_interrupt;
};

// Seconds of an epoch. Throws model_error if any device's replica is not what was computed.
double overlap_on_sim(const simulated_overlap& request, const machine::machine& described);

// Useful bytes over all bytes on the link, of stores of `bytes` each, aligned to their size, from
// the first GPU to the second (PROACT, Fig. 2). A store is at most a line.
double store_goodput(const machine::machine& described, std::uint32_t bytes);

}  // namespace interlace::bench
