#include "launching.hpp"

#include "interlace/cuda/launching.cuh"
#include "publishers.cuh"

namespace interlace::gpu_test {

void add_launching_publishers() { cuda::add_launching_kernels<publisher, column_writer, relay>(); }

}  // namespace interlace::gpu_test
