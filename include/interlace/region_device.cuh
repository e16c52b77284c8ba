// What a kernel does with a region: interlace/region.hpp says how it is launched.
//
//   __global__ void update(interlace::region_writer<float> ranks, ...) {
//     const std::uint64_t i = ...;                      // an element of the device's part
//     interlace::store(ranks, i, f(ranks.view.front[j]));
//     interlace::announce(ranks);                       // at the end, by all threads
//   }
//
// Blocks and grids have one dimension. Where nothing is tracked, `publish` and `announce` do
// nothing, so that one kernel serves every mechanism.
#pragma once

#include "interlace/kernel_device.cuh"
#include "interlace/region.hpp"

namespace interlace {

namespace device {

// Keeps the device's first finding; relaxed atomics, ordered by the end of the kernel.
__device__ __forceinline__ void note_finding(const region_audit& audit, unsigned int what,
                                             unsigned int other, std::uint64_t element) {
  if (atomicCAS(&audit.first->what, 0U, what) != 0U) return;
  audit.first->block = blockIdx.x;
  audit.first->other_block = other;
  audit.first->element = element;
}

template <class T>
__device__ __forceinline__ void audit_publication(const region_writer<T>& w, std::uint64_t begin,
                                                  std::uint64_t end) {
  for (std::uint64_t i = begin + threadIdx.x; i < end; i += blockDim.x) {
    if (i < w.audit.begin || i >= w.audit.end) {
      note_finding(w.audit, 1, 0, i);
      continue;
    }
    const unsigned int before = atomicExch(w.audit.published + (i - w.audit.begin), blockIdx.x + 1);
    if (before != 0) note_finding(w.audit, 2, before - 1, i);
  }
}

}  // namespace device

// Stores element i of the back, which lies in the device's part. Under `inline` also to every
// subscriber's back, by one store each. Weak stores: the subscribers see them behind the epoch's
// exchange, the agent and copy engines behind the block's publication.
template <class T, class I>
__device__ __forceinline__ void store(const region_writer<T>& w, I i,
                                      std::type_identity_t<T> value) {
  const auto n = static_cast<std::uint64_t>(i);
  if (w.audit.first != nullptr) {
    if (n < w.audit.begin || n >= w.audit.end) {
      device::note_finding(w.audit, 1, 0, n);
      return;
    }
    w.audit.stored[n - w.audit.begin] = blockIdx.x + 1;
  }
  w.view.back[n] = value;
  w.view.each_subscriber(n, [&](std::uint32_t peer) { w.view.peer_back[peer][n] = value; });
}

// Says that the block has stored all elements of [begin, end): called by all its threads, with the
// same range. Each element is published once in an epoch, by one block. Release at device scope of
// what all threads of the block stored before; a barrier of the block stands in front of it.
template <class T, class B, class E>
__device__ __forceinline__ void publish(const region_writer<T>& w, B begin, E end) {
  if (w.chunks.count == 0 && w.audit.first == nullptr) return;
  __syncthreads();
  const auto from = static_cast<std::uint64_t>(begin);
  const auto to = static_cast<std::uint64_t>(end);
  if (w.audit.first != nullptr) device::audit_publication(w, from, to);
  if (threadIdx.x < device::warp_lanes && w.chunks.count != 0) {
    device::tracked_grid(w.chunks).announce_range(from, to);
  }
}

// At the end of a block: says that it has stored all that spec.producers maps it to. Called by all
// its threads. Ordering as of publish.
template <class T>
__device__ __forceinline__ void announce(const region_writer<T>& w) {
  if (w.chunks.count == 0 || w.chunks.first == nullptr) return;
  __syncthreads();
  if (threadIdx.x < device::warp_lanes) device::tracked_grid(w.chunks).announce_block();
}

}  // namespace interlace
