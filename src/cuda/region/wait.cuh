// Waits in kernels. Each wait ends at a deadline. Once one wait of the node has failed, all waits
// end.
#pragma once

#include <cuda/atomic>

#include <cstdint>

#include "interlace/cuda/region/exchange.hpp"

namespace interlace::cuda {

__device__ inline std::uint64_t global_time_ns() {
  std::uint64_t t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
  return t;
}

using system_counter = ::cuda::atomic_ref<counter, ::cuda::thread_scope_system>;
using system_word = ::cuda::atomic_ref<unsigned int, ::cuda::thread_scope_system>;

// Reports a failure and ends all waits. Only the device's first report is kept.
__device__ inline void report(const barrier_arguments& a, wait_failure failure) {
  if (atomicCAS(&a.controls[a.device]->failed, 0U, 1U) != 0U) return;
  volatile wait_failure* f = a.failure;
  f->device = a.device;
  f->exchange = a.exchange;
  f->peer = failure.peer;
  f->region = failure.region;
  f->chunk = failure.chunk;
  f->block = failure.block;
  f->other_block = failure.other_block;
  f->element = failure.element;
  f->seen = failure.seen;
  f->target = failure.target;
  __threadfence_system();
  f->what = failure.what;
  __threadfence_system();
  for (std::uint32_t p = 0; p < a.devices; ++p) {
    if (p == a.device) continue;
    system_word(a.controls[p]->failed).store(1U, ::cuda::memory_order_relaxed);
  }
}

__device__ inline bool node_failed(const barrier_arguments& a) {
  return system_word(a.controls[a.device]->failed).load(::cuda::memory_order_relaxed) != 0;
}

// Notes that the device stopped waiting because another process reported a failure. Does nothing if
// the device itself has a failure to report.
__device__ inline void note_elsewhere(const barrier_arguments& a) {
  volatile wait_failure* f = a.failure;
  if (f->what != failed_wait::none) return;
  f->device = a.device;
  __threadfence_system();
  f->what = failed_wait::elsewhere;
}

// Waits until `done` returns true. Also returns after the deadline, or once any device of the node
// has failed.
template <class Done, class Expired>
__device__ void wait_until(const barrier_arguments& a, Done done, Expired expired) {
  const std::uint64_t start = global_time_ns();
  for (std::uint32_t round = 1; !done(); ++round) {
    if (round % 64 != 0) continue;
    if (node_failed(a)) return;
    if (global_time_ns() - start > a.deadline_ns) {
      expired();
      return;
    }
  }
}

}  // namespace interlace::cuda
