// Functions for kernels that may be launched before the work on which they depend has ended.
#pragma once

#if !defined(__CUDACC__)
#error "interlace/early_launch.cuh is for nvcc"
#endif

namespace interlace::device {

// All threads of the kernel must call this function first. It returns once everything that the
// launch depends on has ended. In an ordinary launch it returns at once. (CUDA C++ Programming
// Guide, programmatic dependent launch; PTX ISA, griddepcontrol.)
//
// Memory ordering: after this call, the stores of the prerequisites are visible. Everything that
// the prerequisites had acquired from other GPUs is visible too, because visibility is cumulative.
// The kernel must not load before the call. This rule includes loads of memory that is constant for
// this kernel but written by its prerequisites. Do not call this function under a condition, or a
// compiler may move such loads ahead of the call (tests/python/test_sass.py). The call costs
// nothing if there is nothing to wait for.
__device__ __forceinline__ void await_prerequisites() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Lets the GPU launch the next kernel early. Call this function after await_prerequisites. Once
// every block of the kernel has called the function or has ended, the GPU may launch the next
// kernel. By then all blocks of this kernel have their places, so waiting blocks of the next kernel
// cannot take these places away. Use this function in kernels with few, long blocks, because it
// halves the rate at which a GPU starts blocks.
__device__ __forceinline__ void let_next_launch() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace interlace::device
