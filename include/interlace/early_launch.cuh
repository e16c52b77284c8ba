// What a kernel does that may be launched before what it depends on has ended.
#pragma once

#if !defined(__CUDACC__)
#error "interlace/early_launch.cuh is for nvcc"
#endif

namespace interlace::device {

// First in the kernel, by all its threads: returns once all that the launch depends on has ended;
// at once where the launch was an ordinary one. (CUDA C++ Programming Guide, programmatic dependent
// launch; PTX ISA, griddepcontrol.)
//
// Ordering. What the prerequisites stored is visible then, and what they had acquired from other
// GPUs, for visibility is cumulative. No load may stand before the wait, also none of memory that a
// kernel reads as constant and that its prerequisites write: call it under no condition, or a
// compiler may move such loads ahead of it (tests/python/test_sass.py). It costs nothing where
// there is nothing to wait for.
__device__ __forceinline__ void await_prerequisites() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Behind await_prerequisites. Once all blocks of the kernel have called it or ended, the next
// kernel may be launched. So its blocks, which wait, take no place of this one's. For a kernel of
// few blocks that are long: it halves the rate at which a GPU starts blocks.
__device__ __forceinline__ void let_next_launch() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace interlace::device
