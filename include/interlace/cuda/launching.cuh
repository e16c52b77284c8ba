// Compiles kernels for the device-launch mechanism. Only files that nvcc compiles with -rdc=true
// may include this header.
#pragma once

#if !defined(__CUDACC_RDC__)
#error "interlace/cuda/launching.cuh is for files that are compiled with -rdc=true"
#endif

#include <typeinfo>

#include "interlace/cuda/launching.hpp"
#include "interlace/kernel_device.cuh"

namespace interlace::cuda {

template <class... Kernel>
void add_launching_kernels() {
  (add_launching_kernel(typeid(Kernel),
                        {reinterpret_cast<const void*>(&device::run_launching<Kernel>),
                         reinterpret_cast<const void*>(&device::copy_chunk<>)}),
   ...);
}

}  // namespace interlace::cuda
