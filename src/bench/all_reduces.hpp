// All-reduces of float32 sums, timed: as batches of planned copies with kernels between, and
// NCCL's.
#pragma once

#include <vector>

#include "bench/collectives.hpp"

namespace interlace::bench {

// Of a request whose pattern is all_reduce; each GPU has as many blocks as there are GPUs, and sums
// go to memory of their own. What arrives is compared with sums in double precision that the host
// makes of the same numbers. Throws as measure_collective.
std::vector<copy_times> measure_all_reduce(const collective_request& request);

}  // namespace interlace::bench
