#include <cuda.h>

#include <algorithm>

#include "base/errors.hpp"
#include "cuda/check.hpp"
#include "cuda/driver_entry.hpp"
#include "cuda/region/agent.hpp"
#include "cuda/region/wait.cuh"

namespace interlace::cuda {

namespace {

constexpr std::uint32_t check_threads = 256;
constexpr std::uint32_t vector_bytes = 16;
constexpr std::uint32_t vectors_at_once = 8;  // of a thread: loads under way together
constexpr std::uint32_t idle_ns = 100;        // between two looks that found nothing
// Parts of chunks that a block looks for at a time; further ones wait until the first are gone.
constexpr std::uint32_t window = 32;

using device_counter = ::cuda::atomic_ref<counter, ::cuda::thread_scope_device>;

// Of the parts that `pending` names, those whose chunks are complete; 0 once the node has failed.
// By all lanes of a warp, each with its part's counter and target. The looks are relaxed, or each
// would empty the L1 of the compute unit; a fence behind the last one makes it acquire.
__device__ unsigned int wait_for_any(const agent_arguments& a, unsigned int pending,
                                     std::uint32_t chunk, counter launch) {
  const bool mine = (pending >> threadIdx.x & 1U) != 0;
  const counter target = mine ? launch * a.table.targets[chunk] : 0;
  const std::uint64_t since = global_time_ns();
  for (std::uint32_t round = 1;; ++round) {
    const bool done =
        mine &&
        device_counter(a.table.counters[chunk]).load(::cuda::memory_order_relaxed) >= target;
    const unsigned int found = __ballot_sync(0xffffffffU, done);
    if (found != 0) {
      ::cuda::atomic_thread_fence(::cuda::memory_order_acquire, ::cuda::thread_scope_device);
      return found;
    }
    __nanosleep(idle_ns);
    if (round % 64 != 0) continue;
    if (node_failed(a.barrier)) return 0;
    if (global_time_ns() - since <= a.barrier.deadline_ns) continue;
    if (static_cast<std::uint32_t>(__ffs(static_cast<int>(pending))) == threadIdx.x + 1) {
      const counter before = (launch - 1) * a.table.targets[chunk];
      report(a.barrier, {.what = failed_wait::chunk,
                         .region = a.table.region,
                         .chunk = chunk,
                         .seen = a.table.counters[chunk] - before,
                         .target = a.table.targets[chunk]});
    }
    return 0;
  }
}

// Bytes [begin, end) of the replica to those of every device in `peers`.
__device__ void copy_bytes(const agent_arguments& a, std::uint64_t begin, std::uint64_t end,
                           std::uint32_t peers) {
  // Up to the first and from the last boundary of vectors, byte by byte.
  const std::uint64_t first = min(end, (begin + vector_bytes - 1) / vector_bytes * vector_bytes);
  const std::uint64_t last = max(first, end / vector_bytes * vector_bytes);
  for (std::uint64_t at = begin + threadIdx.x; at < first; at += blockDim.x) {
    const std::byte value = a.from[at];
    for (std::uint32_t rest = peers; rest != 0; rest &= rest - 1) {
      a.to[__ffs(static_cast<int>(rest)) - 1][at] = value;
    }
  }
  for (std::uint64_t at = last + threadIdx.x; at < end; at += blockDim.x) {
    const std::byte value = a.from[at];
    for (std::uint32_t rest = peers; rest != 0; rest &= rest - 1) {
      a.to[__ffs(static_cast<int>(rest)) - 1][at] = value;
    }
  }
  const std::uint64_t stride = std::uint64_t{blockDim.x} * vector_bytes;
  std::uint64_t at = first + std::uint64_t{threadIdx.x} * vector_bytes;
  for (; at + (vectors_at_once - 1) * stride < last; at += vectors_at_once * stride) {
    uint4 values[vectors_at_once];
#pragma unroll
    for (std::uint32_t k = 0; k < vectors_at_once; ++k) {
      // From L2, where the producers' stores are.
      values[k] = __ldcg(reinterpret_cast<const uint4*>(a.from + at + k * stride));
    }
    for (std::uint32_t rest = peers; rest != 0; rest &= rest - 1) {
      std::byte* to = a.to[__ffs(static_cast<int>(rest)) - 1] + at;
#pragma unroll
      for (std::uint32_t k = 0; k < vectors_at_once; ++k) {
        *reinterpret_cast<uint4*>(to + k * stride) = values[k];
      }
    }
  }
  for (; at < last; at += stride) {
    const uint4 value = __ldcg(reinterpret_cast<const uint4*>(a.from + at));
    for (std::uint32_t rest = peers; rest != 0; rest &= rest - 1) {
      *reinterpret_cast<uint4*>(a.to[__ffs(static_cast<int>(rest)) - 1] + at) = value;
    }
  }
}

__global__ void __launch_bounds__(agent_block_threads)
    agent_kernel(const __grid_constant__ agent_arguments a) {
  // Part p of the launch is part p % blocks_per_chunk of chunk p / blocks_per_chunk; block b has
  // parts b, b + gridDim.x, ... Bit k of `pending` is this block's part number base + k.
  __shared__ unsigned int shared_found;
  if (threadIdx.x == 0 && atomicAdd(a.started + 1, 1U) + 1 == gridDim.x) {
    system_word(a.started[0]).store(1U, ::cuda::memory_order_release);
  }
  const std::uint32_t parts = a.table.count * a.blocks_per_chunk;
  const std::uint32_t own =
      parts > blockIdx.x ? (parts - blockIdx.x + gridDim.x - 1) / gridDim.x : 0;
  const auto chunk_of = [&](std::uint32_t number) {
    return (blockIdx.x + number * gridDim.x) / a.blocks_per_chunk;
  };
  const auto first_of = [](std::uint32_t left) {
    return left < window ? (1U << left) - 1 : 0xffffffffU;
  };
  const counter launch = *a.table.launches + 1;
  std::uint32_t base = 0;
  unsigned int pending = first_of(own);
  while (base < own) {
    if (threadIdx.x < window) {
      const std::uint32_t number = base + threadIdx.x;
      const unsigned int found =
          wait_for_any(a, pending, number < own ? chunk_of(number) : 0, launch);
      if (threadIdx.x == 0) shared_found = found;
    }
    __syncthreads();
    const unsigned int found = shared_found;
    if (found == 0) return;
    for (unsigned int rest = found; rest != 0; rest &= rest - 1) {
      const std::uint32_t number = base + __ffs(static_cast<int>(rest)) - 1;
      const kernel::chunk c = a.table.chunks[chunk_of(number)];
      const std::uint32_t slice = (blockIdx.x + number * gridDim.x) % a.blocks_per_chunk;
      const std::uint64_t begin = c.begin * a.table.element_bytes;
      const std::uint64_t bytes = (c.end - c.begin) * a.table.element_bytes;
      const std::uint64_t vectors = (bytes + vector_bytes - 1) / vector_bytes;
      const std::uint64_t from = vectors * slice / a.blocks_per_chunk * vector_bytes;
      const std::uint64_t to = vectors * (slice + 1) / a.blocks_per_chunk * vector_bytes;
      copy_bytes(a, begin + from, begin + min(bytes, to), c.peers);
    }
    __syncthreads();  // before the next look overwrites what was found
    pending &= ~found;
    // The window moves over what is gone.
    const std::uint32_t gone = pending == 0 ? window : __ffs(static_cast<int>(pending)) - 1;
    base += gone;
    pending = gone == window ? 0 : pending >> gone;
    const unsigned int fresh = gone == window ? 0xffffffffU : ~(0xffffffffU >> gone);
    pending = (pending | fresh) & first_of(base < own ? own - base : 0);
  }
}

__global__ void __launch_bounds__(check_threads)
    check_kernel(const __grid_constant__ barrier_arguments b,
                 const __grid_constant__ kernel::chunk_table t) {
  bool wrong = false;
  for (std::uint32_t c = threadIdx.x; c < t.count; c += blockDim.x) {
    const counter before = *t.launches * t.targets[c];
    if (t.counters[c] - before == t.targets[c]) continue;
    wrong = true;
    report(b, {.what = failed_wait::announcement,
               .region = t.region,
               .chunk = c,
               .seen = t.counters[c] - before,
               .target = t.targets[c]});
  }
  if (__syncthreads_or(static_cast<int>(wrong)) == 0 || t.flags == nullptr) return;
  for (std::uint32_t c = threadIdx.x; c < t.count; c += blockDim.x) {
    system_word(t.flags[c]).store(1U, ::cuda::memory_order_relaxed);
  }
}

}  // namespace

void launch_agent(agent_arguments a, std::uint64_t chunk_bytes, std::uint32_t threads,
                  cudaStream_t stream) {
  const std::uint32_t block = std::min(threads, agent_block_threads);
  const std::uint32_t blocks = threads / block;
  // A block gets a few times what its threads have under way at once.
  a.blocks_per_chunk = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(
      chunk_bytes / (std::uint64_t{block} * vectors_at_once * vector_bytes * 2), 1, blocks));
  int least = 0;
  int greatest = 0;
  INTERLACE_CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  cudaLaunchAttribute priority{};  // the stream's, said again for a node of a graph
  priority.id = cudaLaunchAttributePriority;
  priority.val.priority = greatest;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(block);
  config.stream = stream;
  config.attrs = &priority;
  config.numAttrs = 1;
  INTERLACE_CUDA_CHECK(cudaLaunchKernelEx(&config, agent_kernel, a));
}

void launch_check(const barrier_arguments& b, const kernel::chunk_table& table,
                  cudaStream_t stream) {
  check_kernel<<<1, check_threads, 0, stream>>>(b, table);
  INTERLACE_CUDA_CHECK(cudaGetLastError());
}

void enqueue_wait(cudaStream_t stream, const unsigned int* flag) {
  static const auto wait = driver_entry<decltype(&cuStreamWaitValue32)>("cuStreamWaitValue32");
  const CUresult error =
      wait(stream, reinterpret_cast<CUdeviceptr>(flag), 1, CU_STREAM_WAIT_VALUE_GEQ);
  if (error != CUDA_SUCCESS) {
    throw device_error("a stream's wait for a chunk was refused with CUresult " +
                       std::to_string(static_cast<int>(error)));
  }
}

void load_agent_kernels() {
  cudaFuncAttributes attributes;
  INTERLACE_CUDA_CHECK(cudaFuncGetAttributes(&attributes, agent_kernel));
  INTERLACE_CUDA_CHECK(cudaFuncGetAttributes(&attributes, check_kernel));
}

}  // namespace interlace::cuda
