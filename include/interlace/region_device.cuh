// Functions by which kernels write to a region. interlace/region.hpp says how to launch such
// kernels.
//
//   __global__ void update(interlace::region_writer<float> ranks, ...) {
//     const std::uint64_t i = ...;                      // an element of the device's part
//     interlace::store(ranks, i, f(ranks.view.front[j]));
//     interlace::announce(ranks);                       // at the end, by all threads
//   }
//
// Blocks and grids must have one dimension. If the mechanism does not track chunks, `publish` and
// `announce` do nothing, so that one kernel serves every mechanism.
#pragma once

#include "interlace/kernel_device.cuh"
#include "interlace/region.hpp"

namespace interlace {

namespace device {

// Notes a finding. Only the device's first finding is kept. The atomics are relaxed, and the end of
// the kernel orders them.
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

// Stores element i to the back. The element must be in the device's part. With `inline`, the value
// is also stored to every subscriber's back, by one store for each subscriber. Memory ordering: the
// stores are weak. The subscribers see them after the epoch's exchange. The agent and copy engines
// see them after the block's publication.
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

// Announces that the block has stored all elements of [begin, end). All threads of the block must
// call this function with the same range. In an epoch, exactly one block must publish each element.
// Memory ordering: the function begins with a barrier of the block. It then releases at device
// scope everything that threads of the block stored before.
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

// Announces that the block has stored all elements to which spec.producers maps the block. All
// threads of a block must call this function at the block's end. Memory ordering: the function
// orders as `publish` does.
template <class T>
__device__ __forceinline__ void announce(const region_writer<T>& w) {
  if (w.chunks.count == 0 || w.chunks.first == nullptr) return;
  __syncthreads();
  if (threadIdx.x < device::warp_lanes) device::tracked_grid(w.chunks).announce_block();
}

}  // namespace interlace
