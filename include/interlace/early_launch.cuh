// Functions for kernels that may be launched before the work that they depend on has ended.
#pragma once

#if !defined(__CUDACC__)
#error "interlace/early_launch.cuh is for nvcc"
#endif

namespace interlace::device {

// Call it first in the kernel, by all its threads. Returns once everything that the launch depends
// on has ended; at once for an ordinary launch. (CUDA C++ Programming Guide, programmatic dependent
// launch; PTX ISA, griddepcontrol.)
//
// Memory ordering: afterwards, the stores of the prerequisites are visible, and so is everything
// that they had acquired from other GPUs, because visibility is cumulative. No load may come before
// the wait, not even a load of memory that the kernel reads as constant but its prerequisites
// write. Do not call it under a condition, or a compiler may move such loads ahead of it
// (tests/python/test_sass.py). It costs nothing if there is nothing to wait for.
__device__ __forceinline__ void await_prerequisites() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Call this function after await_prerequisites. Once every block of the kernel has called it or has
// ended, the GPU may launch the next kernel. By then all blocks of this kernel have their places,
// so waiting blocks of the next kernel cannot take places away. Use this function in kernels with
// few, long blocks: it halves the rate at which a GPU starts blocks.
__device__ __forceinline__ void let_next_launch() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace interlace::device
