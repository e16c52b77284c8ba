// Compiles the kernels of workloads that launch kernels. Only files that nvcc compiles with
// -rdc=true may include this header.
#pragma once

#include "interlace/cuda/launching.cuh"
#include "interlace/run/launching.hpp"
#include "interlace/workload/problem.hpp"

namespace interlace::run {

// Enables the device-launch mechanism for the kernels of a list.
template <class... Kernel>
void add_launching_kernels_in(workload::kernel_list<Kernel...> /*kernels*/) {
  cuda::add_launching_kernels<Kernel...>();
}

// Enables the device-launch mechanism for the kernels of a workload. Call this function before a
// node launches one of these kernels with that mechanism.
template <class Problem>
void add_launching_kernels_of() {
  add_launching_kernels_in(typename Problem::launching_kernels{});
}

}  // namespace interlace::run
