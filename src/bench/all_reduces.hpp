// Times all-reduces of float32 sums. Interlace makes them as batches of planned copies with kernels
// between the batches. NCCL makes them for comparison.
#pragma once

#include <vector>

#include "bench/collectives.hpp"

namespace interlace::bench {

// Takes a request whose pattern is all_reduce. Each GPU has as many blocks as there are GPUs, and
// the sums go to separate memory. The function compares the results with sums of the same numbers
// that the host computes in double precision. Throws the same errors as measure_collective.
std::vector<copy_times> measure_all_reduce(const collective_request& request);

}  // namespace interlace::bench
