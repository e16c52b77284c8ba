#include "cuda/early_launch.hpp"
#include "cuda/load_kernel.hpp"
#include "cuda/region/wait.cuh"
#include "interlace/base/errors.hpp"
#include "interlace/cuda/check.hpp"
#include "interlace/cuda/region/exchange.hpp"
#include "interlace/early_launch.cuh"

namespace interlace::cuda {

namespace {

constexpr unsigned int exchange_threads = 512;
constexpr unsigned int gate_threads = 32;
constexpr unsigned int wide_threads = 256;
constexpr unsigned int wide_blocks = 1024;
static_assert(max_devices <= gate_threads);

template <class T, combine Op>
struct reduction_tag {
  using type = T;
  static constexpr combine operation = Op;
};

template <class T, class F>
__host__ __device__ void with_operation(combine operation, F&& f) {
  if (operation == combine::add) {
    f(reduction_tag<T, combine::add>{});
  } else {
    f(reduction_tag<T, combine::min>{});
  }
}

// Calls f with a tag for the type and the operation of a reduction.
template <class F>
__host__ __device__ void with_type(element_type type, combine operation, F&& f) {
  switch (type) {
    case element_type::f32:
      return with_operation<float>(operation, f);
    case element_type::f64:
      return with_operation<double>(operation, f);
    case element_type::u32:
      return with_operation<std::uint32_t>(operation, f);
    case element_type::i32:
      return with_operation<std::int32_t>(operation, f);
    case element_type::u64:
      return with_operation<std::uint64_t>(operation, f);
    case element_type::i64:
      return with_operation<std::int64_t>(operation, f);
  }
}

// The number of the barrier that this device enters next. The number must be read before the
// barrier.
__device__ counter next_barrier(const barrier_arguments& a) {
  return a.controls[a.device]->entered + 1;
}

// A barrier over all devices. The kernel has one block, and all of its threads call this function.
//
// Release: everything that this block stored before, and everything that the stream's earlier
// kernels and copies stored anywhere, happens before the peers leave the barrier. The block-wide
// barrier orders the block's own stores before each sender's release. The end of a kernel, or the
// next kernel's wait for that end, orders the kernel's stores before the next kernel's stores. A
// release is cumulative.
//
// Acquire: everything that the peers released happens before all operations after the barrier, both
// of threads of this block and of later kernels of the stream.
__device__ void pass_barrier(const barrier_arguments& a, counter number) {
  __syncthreads();
  const unsigned int peer = threadIdx.x;
  if (peer < a.devices && peer != a.device) {
    system_counter(a.controls[peer]->arrived[a.device]).store(number, ::cuda::memory_order_release);
    const system_counter arrived(a.controls[a.device]->arrived[peer]);
    counter seen = 0;
    wait_until(
        a, [&] { return (seen = arrived.load(::cuda::memory_order_acquire)) >= number; },
        [&] {
          report(a, {.what = failed_wait::peer, .peer = peer, .seen = seen, .target = number});
        });
  }
  __syncthreads();
  if (threadIdx.x == 0) a.controls[a.device]->entered = number;
  if (a.notes_failures && peer == a.device && node_failed(a)) note_elsewhere(a);
}

// Folds the copies of an element in a fixed order, resets them, and stores the sum to every inbox.
template <class T, combine Op>
__device__ void send_sums(const small_reduction& item, const barrier_arguments& a,
                          unsigned int slot) {
  T* partial = static_cast<T*>(item.partial);
  const std::uint32_t row = (slot * a.devices + a.device) * item.elements;
  if (item.copies == 1) {
    for (std::uint32_t i = threadIdx.x; i < item.elements; i += blockDim.x) {
      const T value = partial[i];
      partial[i] = combine_identity<T, Op>();
      for (std::uint32_t p = 0; p < a.devices; ++p) {
        static_cast<T*>(item.inboxes[p])[row + i] = value;
      }
    }
    return;
  }
  // One warp combines each element. Its lanes divide the copies among themselves.
  const std::uint32_t lane = threadIdx.x % 32;
  for (std::uint32_t i = threadIdx.x / 32; i < item.elements; i += blockDim.x / 32) {
    T value = combine_identity<T, Op>();
    for (std::uint32_t c = lane; c < item.copies; c += 32) {
      T& own = partial[std::uint64_t{c} * item.elements + i];
      value = combine_values<T, Op>(value, own);
      own = combine_identity<T, Op>();
    }
    for (int mask = 16; mask != 0; mask /= 2) {
      value = combine_values<T, Op>(value, __shfl_xor_sync(0xffffffffU, value, mask));
    }
    value = __shfl_sync(0xffffffffU, value, 0);
    if (lane < a.devices) static_cast<T*>(item.inboxes[lane])[row + i] = value;
  }
}

// Combines the results in the order of the devices, so that all fronts get the same bits.
template <class T, combine Op>
__device__ void combine_inbox(const small_reduction& item, const barrier_arguments& a,
                              unsigned int slot) {
  const T* inbox = static_cast<const T*>(item.inboxes[a.device]);
  for (std::uint32_t i = threadIdx.x; i < item.elements; i += blockDim.x) {
    T total = combine_identity<T, Op>();
    for (std::uint32_t d = 0; d < a.devices; ++d) {
      // The loads read the L2, because the stores of peers arrive there.
      const T value = __ldcg(inbox + (slot * a.devices + d) * item.elements + i);
      total = combine_values<T, Op>(total, value);
    }
    static_cast<T*>(item.front)[i] = total;
  }
}

__global__ void __launch_bounds__(exchange_threads)
    exchange_kernel(const __grid_constant__ exchange_arguments a, bool next_early) {
  device::await_prerequisites();
  if (next_early) device::let_next_launch();
  const counter number = next_barrier(a.barrier);
  const auto slot = static_cast<unsigned int>(number % 2);
  for (std::uint32_t t = 0; t < a.tracked; ++t) {
    const tracked_launch& over = a.launches[t];
    if (threadIdx.x == 0) {
      if (over.parity != tracked_launch::any_parity && *over.launches % 2 != over.parity) {
        report(a.barrier, {.what = failed_wait::turn,
                           .region = over.region,
                           .seen = *over.launches,
                           .target = over.parity});
      }
      ++*over.launches;
    }
    for (std::uint32_t w = threadIdx.x; w < over.count; w += blockDim.x) over.words[w] = 0;
  }
  for (std::uint32_t r = 0; r < a.reductions; ++r) {
    with_type(a.items[r].type, a.items[r].operation, [&](auto tag) {
      using reduction = decltype(tag);
      send_sums<typename reduction::type, reduction::operation>(a.items[r], a.barrier, slot);
    });
  }
  pass_barrier(a.barrier, number);
  for (std::uint32_t r = 0; r < a.reductions; ++r) {
    with_type(a.items[r].type, a.items[r].operation, [&](auto tag) {
      using reduction = decltype(tag);
      combine_inbox<typename reduction::type, reduction::operation>(a.items[r], a.barrier, slot);
    });
  }
}

__global__ void __launch_bounds__(gate_threads)
    gate_kernel(const __grid_constant__ barrier_arguments a, unsigned int* host_ticket,
                unsigned int ticket) {
  const counter number = next_barrier(a);
  if (threadIdx.x == 0) {
    // The host may still be enqueueing work, which can take longer than waits for devices. This
    // wait therefore ends 10 s after the deadline.
    barrier_arguments patient = a;
    patient.deadline_ns += 10'000'000'000ULL;
    // Relaxed order is enough, because the ticket publishes no data. The launch of each kernel
    // makes the host's data visible to the kernel, and the barrier orders the devices. The scope is
    // the system, because the host stores the ticket.
    const system_word stored(*host_ticket);
    unsigned int seen = 0;
    wait_until(
        patient,
        [&] {
          seen = stored.load(::cuda::memory_order_relaxed);
          return static_cast<int>(seen - ticket) >= 0;
        },
        [&] { report(a, {.what = failed_wait::host, .seen = seen, .target = ticket}); });
  }
  pass_barrier(a, number);
}

template <class T, combine Op>
__global__ void __launch_bounds__(wide_threads)
    fold_copies(T* partial, std::uint64_t elements, std::uint32_t copies) {
  const std::uint64_t stride = std::uint64_t{gridDim.x} * blockDim.x;
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < elements;
       i += stride) {
    T value = partial[i];
    for (std::uint32_t c = 1; c < copies; ++c) {
      value = combine_values<T, Op>(value, partial[c * elements + i]);
      partial[c * elements + i] = combine_identity<T, Op>();
    }
    partial[i] = value;
  }
}

// Combines this device's segment of the elements. Reads the peers' partial results over NVLink, and
// stores the combined result to the peers' fronts. With n devices, a segment is one n-th of all
// elements.
template <class T, combine Op>
__global__ void __launch_bounds__(wide_threads)
    combine_segment(const __grid_constant__ large_reduction r) {
  const std::uint64_t begin = r.elements * r.device / r.devices;
  const std::uint64_t end = r.elements * (r.device + 1) / r.devices;
  const std::uint64_t stride = std::uint64_t{gridDim.x} * blockDim.x;
  for (std::uint64_t i = begin + std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < end;
       i += stride) {
    T total = combine_identity<T, Op>();
    for (std::uint32_t d = 0; d < r.devices; ++d) {
      total = combine_values<T, Op>(total, __ldcg(static_cast<const T*>(r.partials[d]) + i));
    }
    for (std::uint32_t d = 0; d < r.devices; ++d) static_cast<T*>(r.fronts[d])[i] = total;
  }
}

template <class T, combine Op>
__global__ void __launch_bounds__(wide_threads) reset_partial(T* partial, std::uint64_t elements) {
  const std::uint64_t stride = std::uint64_t{gridDim.x} * blockDim.x;
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < elements;
       i += stride) {
    partial[i] = combine_identity<T, Op>();
  }
}

unsigned int wide_blocks_for(std::uint64_t elements) {
  const std::uint64_t blocks = (elements + wide_threads - 1) / wide_threads;
  return static_cast<unsigned int>(blocks < 1 ? 1 : blocks < wide_blocks ? blocks : wide_blocks);
}

}  // namespace

void launch_exchange(const exchange_arguments& a, early_launch how, cudaStream_t stream) {
  cudaLaunchAttribute attribute = early_attribute();
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(1);
  config.blockDim = dim3(exchange_threads);
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = how.comes ? 1 : 0;
  INTERLACE_CUDA_CHECK(cudaLaunchKernelEx(&config, exchange_kernel, a, how.lets_next));
}

void launch_fold_copies(const large_reduction& r, cudaStream_t stream) {
  if (r.copies == 1) return;
  with_type(r.type, r.operation, [&](auto tag) {
    using type = typename decltype(tag)::type;
    fold_copies<type, decltype(tag)::operation>
        <<<wide_blocks_for(r.elements), wide_threads, 0, stream>>>(
            static_cast<type*>(r.partials[r.device]), r.elements, r.copies);
  });
  INTERLACE_CUDA_CHECK(cudaGetLastError());
}

void launch_combine_segment(const large_reduction& r, cudaStream_t stream) {
  with_type(r.type, r.operation, [&](auto tag) {
    using type = typename decltype(tag)::type;
    combine_segment<type, decltype(tag)::operation>
        <<<wide_blocks_for(r.elements / r.devices + 1), wide_threads, 0, stream>>>(r);
  });
  INTERLACE_CUDA_CHECK(cudaGetLastError());
}

void launch_reset_partial(const large_reduction& r, cudaStream_t stream) {
  with_type(r.type, r.operation, [&](auto tag) {
    using type = typename decltype(tag)::type;
    reset_partial<type, decltype(tag)::operation>
        <<<wide_blocks_for(r.elements), wide_threads, 0, stream>>>(
            static_cast<type*>(r.partials[r.device]), r.elements);
  });
  INTERLACE_CUDA_CHECK(cudaGetLastError());
}

void launch_gate(const barrier_arguments& a, unsigned int* host_ticket, unsigned int ticket,
                 cudaStream_t stream) {
  gate_kernel<<<1, gate_threads, 0, stream>>>(a, host_ticket, ticket);
  INTERLACE_CUDA_CHECK(cudaGetLastError());
}

bool load_exchange_kernels() {
  const bool awaits = awaits_prerequisites(load_kernel(exchange_kernel));
  load_kernel(gate_kernel);
  for (const auto type : {element_type::f32, element_type::f64, element_type::u32,
                          element_type::i32, element_type::u64, element_type::i64}) {
    for (const auto operation : {combine::add, combine::min}) {
      with_type(type, operation, [](auto tag) {
        using value = typename decltype(tag)::type;
        load_kernel(fold_copies<value, decltype(tag)::operation>);
        load_kernel(combine_segment<value, decltype(tag)::operation>);
        load_kernel(reset_partial<value, decltype(tag)::operation>);
      });
    }
  }
  return awaits;
}

}  // namespace interlace::cuda
