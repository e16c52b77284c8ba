// Delays in tests. They make a missing wait visible.
#pragma once

#include <cstdint>

#include "interlace/kernel_device.cuh"

namespace interlace::gpu_test {

__device__ inline void wait_ns(std::uint64_t nanoseconds) {
  std::uint64_t begin;
  std::uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (now - begin < nanoseconds);
}

// A kernel that delays later work on its stream.
struct delay {
  static constexpr std::uint32_t threads = 32;
  std::uint64_t nanoseconds;
  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      if (lane.index() == 0) wait_ns(nanoseconds);
    });
  }
};

}  // namespace interlace::gpu_test
