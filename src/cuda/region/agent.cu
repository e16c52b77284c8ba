#include <cuda.h>

#include <algorithm>
#include <array>

#include "base/driver_needs.hpp"
#include "cuda/driver_entry.hpp"
#include "cuda/load_kernel.hpp"
#include "cuda/region/agent.hpp"
#include "cuda/region/wait.cuh"
#include "interlace/base/errors.hpp"
#include "interlace/copy_device.cuh"
#include "interlace/cuda/check.hpp"
#include "interlace/cuda/memory/memory.hpp"
#include "interlace/cuda/occupancy.hpp"

namespace interlace::cuda {

namespace {

constexpr std::uint32_t check_threads = 256;
constexpr std::uint32_t bulk_block_threads = 32;
constexpr std::uint32_t idle_ns = 100;  // pause after a look that found no complete chunk
// The number of parts of chunks for which a block waits at a time. A block waits for later parts
// once the first parts are done.
constexpr std::uint32_t window = 32;

using device_counter = ::cuda::atomic_ref<counter, ::cuda::thread_scope_device>;

// Returns the parts in `pending` whose chunks are complete, or 0 once the node has failed. All
// lanes of a warp call this function. Each lane passes the counter and the target of its own part.
// The reads are relaxed, because each acquiring read would empty the multiprocessor's L1. A fence
// after the last read acquires instead.
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
    // The lanes decide together, because each lane may read the clock and the failure at a
    // different time.
    if (__any_sync(0xffffffffU, node_failed(a.barrier)) != 0) return 0;
    const bool late = global_time_ns() - since > a.barrier.deadline_ns;
    if (__any_sync(0xffffffffU, late) == 0) continue;
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

// Calls copy(bytes, peers) for each part of a chunk that belongs to this block, as soon as the
// chunk is complete. All threads make the call together.
template <class Copy>
__device__ void serve(const agent_arguments& a, Copy copy) {
  // Part p of the launch is part p % blocks_per_chunk of chunk p / blocks_per_chunk. Block b has
  // every gridDim.x-th part, beginning with part b. Bit k of `pending` is this block's part number
  // base + k.
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
      copy(device::cut_slice({c.begin * a.table.element_bytes, c.end * a.table.element_bytes},
                             (blockIdx.x + number * gridDim.x) % a.blocks_per_chunk,
                             a.blocks_per_chunk),
           c.peers);
    }
    // all threads must have read the result before the next look overwrites the result
    __syncthreads();
    pending &= ~found;
    // Moves the window past the parts that are done.
    const std::uint32_t gone = pending == 0 ? window : __ffs(static_cast<int>(pending)) - 1;
    base += gone;
    pending = gone == window ? 0 : pending >> gone;
    const unsigned int fresh = gone == window ? 0xffffffffU : ~(0xffffffffU >> gone);
    pending = (pending | fresh) & first_of(base < own ? own - base : 0);
  }
}

__global__ void __launch_bounds__(agent_block_threads)
    agent_kernel(const __grid_constant__ agent_arguments a) {
  serve(a, [&](device::byte_range bytes, std::uint32_t peers) {
    device::copy_bytes(a.where, bytes.begin, bytes.end, peers, threadIdx.x, blockDim.x);
  });
}

// Copies in bulk through shared memory, by one thread. Loads run `ahead` stages ahead of the
// stores. Each store frees its stage for a later load. (PTX ISA, cp.async.bulk.)
class bulk_copier {
 public:
  static constexpr std::uint32_t stage_bytes = 16 * 1024;
  static constexpr std::uint32_t stages = 4;
  static constexpr std::uint32_t shared_bytes =
      stages * (stage_bytes + static_cast<std::uint32_t>(sizeof(std::uint64_t)));

#if __CUDA_ARCH__ >= 900
  static constexpr std::uint32_t ahead = 2;

  // `memory` must be shared memory of shared_bytes bytes, aligned to 16 bytes.
  __device__ explicit bulk_copier(std::byte* memory)
      : stage_(static_cast<std::uint32_t>(__cvta_generic_to_shared(memory))),
        barrier_(stage_ + stages * stage_bytes) {}

  // Prepares the copier. Call this function before the first copy.
  __device__ void begin() const {
    for (std::uint32_t s = 0; s < stages; ++s) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier_ + 8 * s) : "memory");
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }

  // Copies bytes of the replica to the replicas of `peers`. The beginning and the end of `bytes`
  // must be multiples of 16. The copy sees everything that the calling thread has acquired.
  __device__ void copy(const kernel::replicas& r, device::byte_range bytes, std::uint32_t peers) {
    // Orders the bulk copies after what ordinary loads acquired.
    asm volatile("fence.proxy.async.global;" ::: "memory");
    std::uint64_t next = bytes.begin;
    for (std::uint32_t k = 0; k < ahead && next < bytes.end; ++k) next = load(r, next, bytes.end);
    for (std::uint64_t at = bytes.begin; at < bytes.end; at += stage_bytes) {
      store(r, at, size_at(at, bytes.end), peers);
      if (next < bytes.end) next = load(r, next, bytes.end);
    }
  }

  // Waits until all bytes have been written.
  __device__ static void finish() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

 private:
  __device__ static std::uint32_t size_at(std::uint64_t at, std::uint64_t end) {
    return static_cast<std::uint32_t>(min(std::uint64_t{stage_bytes}, end - at));
  }
  __device__ std::uint64_t load(const kernel::replicas& r, std::uint64_t at, std::uint64_t end) {
    // Waits until the stage can be reused. The store that was issued `stages` stores ago must have
    // read the stage. The last (stages - ahead) stores may still be reading their stages.
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(stages - ahead) : "memory");
    const std::uint32_t s = loads_++ % stages;
    const std::uint32_t size = size_at(at, end);
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier_ + 8 * s),
                 "r"(size)
                 : "memory");
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
            "r"(stage_ + s * stage_bytes),
        "l"(r.from + at), "r"(size), "r"(barrier_ + 8 * s)
        : "memory");
    return at + size;
  }
  __device__ void store(const kernel::replicas& r, std::uint64_t at, std::uint32_t size,
                        std::uint32_t peers) {
    const std::uint32_t s = stores_ % stages;
    const std::uint32_t parity = stores_ / stages % 2;
    ++stores_;
    for (std::uint32_t done = 0; done == 0;) {
      asm volatile(
          "{ .reg .pred p;\n"
          "  mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
          "  selp.u32 %0, 1, 0, p; }"
          : "=r"(done)
          : "r"(barrier_ + 8 * s), "r"(parity)
          : "memory");
    }
    for (std::uint32_t rest = peers; rest != 0; rest &= rest - 1) {
      asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(
                       r.to[__ffs(static_cast<int>(rest)) - 1] + at),
                   "r"(stage_ + s * stage_bytes), "r"(size)
                   : "memory");
    }
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
  }

  std::uint32_t stage_;    // address of the stages in shared memory
  std::uint32_t barrier_;  // address of the barriers, one for the load into each stage
  std::uint32_t loads_ = 0;
  std::uint32_t stores_ = 0;
#endif
};

__global__ void __launch_bounds__(bulk_block_threads)
    bulk_agent_kernel(const __grid_constant__ agent_arguments a) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(128) std::byte interlace_bulk_stages[];
  bulk_copier copier(interlace_bulk_stages);
  if (threadIdx.x == 0) copier.begin();
  serve(a, [&](device::byte_range bytes, std::uint32_t peers) {
    constexpr std::uint64_t step = device::vector_bytes;
    const std::uint64_t first = min(bytes.end, (bytes.begin + step - 1) / step * step);
    const std::uint64_t last = max(first, bytes.end / step * step);
    device::copy_bytes(a.where, bytes.begin, first, peers, threadIdx.x, blockDim.x);
    device::copy_bytes(a.where, last, bytes.end, peers, threadIdx.x, blockDim.x);
    if (threadIdx.x == 0) copier.copy(a.where, {first, last}, peers);
  });
  if (threadIdx.x == 0) bulk_copier::finish();
#else
  __trap();  // check_agent refuses to launch this kernel
#endif
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

namespace {

struct agent_shape {
  std::uint32_t blocks = 0;
  std::uint32_t threads = 0;  // threads of each block
  std::uint32_t shared_bytes = 0;
  std::uint64_t under_way = 0;  // number of bytes that a block has in flight at a time
};

agent_shape shape_of(const kernel::region_options& how) {
  agent_shape s;
  if (how.agent_copy == kernel::agent_copy::bulk) {
    s.threads = bulk_block_threads;
    s.shared_bytes = bulk_copier::shared_bytes;
    s.under_way = std::uint64_t{bulk_copier::stages} * bulk_copier::stage_bytes;
  } else {
    s.threads = std::min(how.agent_threads, agent_block_threads);
    s.under_way = std::uint64_t{s.threads} * device::vectors_at_once * device::vector_bytes;
  }
  s.blocks = (how.agent_threads + s.threads - 1) / s.threads;
  return s;
}

using agent_entry = void (*)(agent_arguments);

agent_entry entry_of(const kernel::region_options& how) {
  return how.agent_copy == kernel::agent_copy::bulk ? bulk_agent_kernel : agent_kernel;
}

// The attributes of the agent. The agent must be loaded on the current device.
cudaFuncAttributes loaded_code(const kernel::region_options& how) {
  cudaFuncAttributes attributes{};
  INTERLACE_CUDA_CHECK(cudaFuncGetAttributes(&attributes, entry_of(how)));
  return attributes;
}

// The resources that the agent takes on the multiprocessor that holds the most blocks of the agent.
struct agent_place {
  std::uint32_t threads = 0;
  std::uint32_t shared_bytes = 0;
};

agent_place place_of(const kernel::region_options& how, int ordinal) {
  constexpr std::uint32_t granule = 128;  // unit in which shared memory is allocated
  const agent_shape s = shape_of(how);
  const std::uint32_t processors = gpu_attribute(cudaDevAttrMultiProcessorCount, ordinal);
  const std::uint32_t each = (s.blocks + processors - 1) / processors;
  const cudaFuncAttributes own = loaded_code(how);
  const auto used = s.shared_bytes + static_cast<std::uint32_t>(own.sharedSizeBytes);
  // A block also takes the shared memory that the system reserves for it.
  return {.threads = each * s.threads,
          .shared_bytes = each * ((used + granule - 1) / granule * granule +
                                  gpu_attribute(cudaDevAttrReservedSharedMemoryPerBlock, ordinal))};
}

}  // namespace

std::string why_no_bulk_agent() {
  kernel::region_options in_bulk;
  in_bulk.agent_copy = kernel::agent_copy::bulk;
  return why_no_bulk_copies(loaded_code(in_bulk).ptxVersion);
}

void check_agent(const kernel::region_options& how, const grid& kernel, int ordinal) {
  const current_device on(ordinal);
  if (how.agent_copy == kernel::agent_copy::bulk) {
    const std::string reason = why_no_bulk_agent();
    if (!reason.empty()) throw usage_error("GPU " + std::to_string(ordinal) + " " + reason);
  }
  const agent_place p = place_of(how, ordinal);
  const std::uint32_t reserved = gpu_attribute(cudaDevAttrReservedSharedMemoryPerBlock, ordinal);
  if (p.threads + kernel.threads <=
          gpu_attribute(cudaDevAttrMaxThreadsPerMultiProcessor, ordinal) &&
      p.shared_bytes + kernel.shared_bytes + reserved <=
          gpu_attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor, ordinal)) {
    return;
  }
  throw usage_error("an agent of " + std::to_string(how.agent_threads) +
                    " threads leaves no place for a block of " + std::to_string(kernel.threads) +
                    " threads and " + std::to_string(kernel.shared_bytes) +
                    " bytes of shared memory on GPU " + std::to_string(ordinal) +
                    "; give the agent fewer threads");
}

grid_needs agent_needs(const kernel::region_options& how) {
  const agent_shape s = shape_of(how);
  const cudaFuncAttributes own = loaded_code(how);
  return {s.blocks,
          {s.threads, static_cast<std::uint32_t>(own.numRegs),
           s.shared_bytes + static_cast<std::uint32_t>(own.sharedSizeBytes)}};
}

unsigned int agent_shared_percent(const kernel::region_options& how, int ordinal) {
  const std::uint32_t all = gpu_attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor, ordinal);
  return (100 * place_of(how, ordinal).shared_bytes + all - 1) / all;
}

void launch_agent(agent_arguments a, const kernel::region_options& how, unsigned int shared_percent,
                  cudaStream_t stream) {
  const agent_shape s = shape_of(how);
  // A part has a few times as many bytes as a block has in flight.
  a.blocks_per_chunk = static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>(how.chunk_bytes / (s.under_way * 2), 1, s.blocks));
  int least = 0;
  int greatest = 0;
  INTERLACE_CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  std::array<cudaLaunchAttribute, 2> attributes{};
  // The priority of the stream does not apply to a node of a graph. The node needs this attribute.
  attributes[0].id = cudaLaunchAttributePriority;
  attributes[0].val.priority = greatest;
  attributes[1].id = cudaLaunchAttributePreferredSharedMemoryCarveout;
  attributes[1].val.sharedMemCarveout = shared_percent;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(s.blocks);
  config.blockDim = dim3(s.threads);
  config.dynamicSmemBytes = s.shared_bytes;
  config.stream = stream;
  config.attrs = attributes.data();
  config.numAttrs = static_cast<unsigned int>(attributes.size());
  INTERLACE_CUDA_CHECK(cudaLaunchKernelEx(&config, entry_of(how), a));
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
  load_kernel(agent_kernel);
  load_kernel(bulk_agent_kernel);
  INTERLACE_CUDA_CHECK(cudaFuncSetAttribute(bulk_agent_kernel,
                                            cudaFuncAttributeMaxDynamicSharedMemorySize,
                                            static_cast<int>(bulk_copier::shared_bytes)));
  load_kernel(check_kernel);
}

}  // namespace interlace::cuda
