// The real node as one of several processes. Each process has one GPU, and NVSHMEM connects the
// processes. This node is a baseline for comparison. It runs the same kernels as cuda::node. An
// exchange puts the data on one stream for each peer. A barrier on the main stream ends the
// exchange.
//
// Every process runs the whole program, but does only its own device's part of the work.
// Allocations, uploads and launches on another device have no effect, and results that are read
// from another device are meaningless. All processes must create regions and reductions in the same
// order. Nothing is recorded or captured. run() enqueues on plain streams.
#pragma once

#include <cuda_runtime.h>

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "interlace/base/errors.hpp"
#include "interlace/base/limits.hpp"
#include "interlace/cuda/check.hpp"
#include "interlace/cuda/memory/memory.hpp"
#include "interlace/cuda/occupancy.hpp"
#include "interlace/cuda/transfer/nvshmem_library.hpp"
#include "interlace/kernel.hpp"
#include "interlace/kernel/region.hpp"
#if defined(__CUDACC__)
#include "interlace/kernel_device.cuh"
#endif

namespace interlace::cuda {

#if defined(__CUDACC__)
namespace device {

// Combines `count` values for each of n elements, in order. The values of one element are n places
// apart. If `reset` is true, the function then replaces the values with the identity.
template <class T, combine Op>
__global__ void fold_values(T* values, std::uint64_t n, std::uint32_t count, bool reset, T* to) {
  const std::uint64_t stride = std::uint64_t{gridDim.x} * blockDim.x;
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += stride) {
    T total = combine_identity<T, Op>();
#pragma unroll 8
    for (std::uint32_t c = 0; c < count; ++c) {
      total = combine_values<T, Op>(total, values[c * n + i]);
      if (reset) values[c * n + i] = combine_identity<T, Op>();
    }
    to[i] = total;
  }
}

}  // namespace device
#endif

class rank_node {
 public:
  explicit rank_node(const nvshmem_rank& self, int ordinal);
  ~rank_node();
  rank_node(const rank_node&) = delete;
  rank_node& operator=(const rank_node&) = delete;
  rank_node(rank_node&&) = delete;
  rank_node& operator=(rank_node&&) = delete;

  std::uint32_t devices() const { return self_.ranks(); }
  std::uint32_t rank() const { return self_.rank(); }
  int ordinal(std::uint32_t /*device*/) const { return ordinal_; }
  // See cuda::node::threads_at_once.
  std::uint64_t threads_at_once(std::uint32_t /*device*/) const {
    return cuda::threads_at_once(ordinal_);
  }

  template <class T>
  local<T> allocate(std::uint32_t device, std::uint64_t n) {
    return {device == rank() ? static_cast<T*>(memory_.take(ordinal_, n * sizeof(T))) : nullptr, n};
  }
  template <class T>
  void upload(const local<T>& to, const std::vector<T>& values) {
    if (values.size() > to.size) {
      throw model_error("an upload of " + std::to_string(values.size()) +
                        " elements does not fit in an array of " + std::to_string(to.size));
    }
    if (to.data != nullptr) write(to.data, values.data(), values.size() * sizeof(T));
  }
  template <class T>
  std::vector<std::remove_const_t<T>> download(const local<T>& from) const {
    return read<std::remove_const_t<T>>(from.data, from.size);
  }

  template <class T>
  kernel::region<T> create_region(kernel::region_options o) {
    return {add_region(std::move(o), sizeof(T))};
  }
  template <class T>
  void set_front(const kernel::region<T>& r, const std::vector<T>& values) {
    const kernel::region_state& s = states_.at(r.id);
    kernel::check_front(values.size(), s);
    for (void* buffer : s.buffers[rank()]) write(buffer, values.data(), values.size() * sizeof(T));
  }
  template <class T>
  std::vector<T> front(const kernel::region<T>& r, std::uint32_t device) const {
    const kernel::region_state& s = states_.at(r.id);
    return read<T>(s.buffers.at(device).at(s.parity), s.elements);
  }
  template <class T>
  replicated<T> view(const kernel::region<T>& r, std::uint32_t device) const {
    return kernel::make_view<T>(states_.at(r.id), r.id, device);
  }

  // A put of NVSHMEM delivers a range, and cannot deliver updates. Each of these functions
  // therefore throws usage_error.
  template <class T, combine Op>
  [[noreturn]] kernel::partition<T, Op> create_partition(const kernel::region_options& /*o*/) {
    refuse_updates();
  }
  template <class T, combine Op>
  [[noreturn]] void set_part(const kernel::partition<T, Op>& /*p*/, std::uint32_t /*device*/,
                             const std::vector<T>& /*values*/) {
    refuse_updates();
  }
  template <class T, combine Op>
  [[noreturn]] std::vector<T> part(const kernel::partition<T, Op>& /*p*/,
                                   std::uint32_t /*device*/) const {
    refuse_updates();
  }
  template <class T, combine Op>
  [[noreturn]] partitioned<T, Op> view(const kernel::partition<T, Op>& /*p*/,
                                       std::uint32_t /*device*/) const {
    refuse_updates();
  }
  template <class Kernel, class T, combine Op>
  [[noreturn]] void launch(std::uint32_t /*device*/, const Kernel& /*kernel*/, grid /*shape*/,
                           const kernel::partition<T, Op>& /*p*/) {
    refuse_updates();
  }

#if defined(__CUDACC__)
  template <class T, combine Op>
  kernel::reduction<T, Op> create_reduction(std::uint64_t n, std::uint32_t copies) {
    const std::uint32_t id = add_reduction(n, copies, sizeof(T));
    const kernel::region_state& s = states_[id];
    const std::vector<T> identities(n * copies, combine_identity<T, Op>());
    write(s.buffers[rank()][0], identities.data(), n * sizeof(T));
    write(s.partials[rank()], identities.data(), n * copies * sizeof(T));
    folds_[id] = [n](void* values, std::uint32_t count, bool reset, void* to, cudaStream_t on) {
      constexpr unsigned int threads = 128;
      const auto blocks = static_cast<unsigned int>((n + threads - 1) / threads);
      device::fold_values<T, Op><<<blocks, threads, 0, on>>>(static_cast<T*>(values), n, count,
                                                             reset, static_cast<T*>(to));
      INTERLACE_CUDA_CHECK(cudaGetLastError());
    };
    return {id};
  }
#endif
  template <class T, combine Op>
  void set_front(const kernel::reduction<T, Op>& r, const std::vector<T>& values) {
    kernel::check_front(values.size(), states_.at(r.id));
    write(states_[r.id].buffers[rank()][0], values.data(), values.size() * sizeof(T));
  }
  // The combined value, which is the same on every device.
  template <class T, combine Op>
  std::vector<T> front(const kernel::reduction<T, Op>& r, std::uint32_t /*device*/) const {
    return read<T>(states_.at(r.id).buffers[rank()][0], states_.at(r.id).elements);
  }
  template <class T, combine Op>
  reduced<T, Op> view(const kernel::reduction<T, Op>& r, std::uint32_t device) const {
    return kernel::make_reduced_view<T, Op>(states_.at(r.id), device);
  }

#if defined(__CUDACC__)
  template <class Kernel>
  void launch(std::uint32_t on, const Kernel& kernel, grid shape) {
    static_assert(std::is_trivially_copyable_v<Kernel>, "kernels are copied to the device");
    if (on != rank() || shape.blocks == 0) return;
    using interlace::device::run_grid;
    using interlace::device::untracked;
    Kernel functor = kernel;
    enqueue_kernel(reinterpret_cast<const void*>(&run_grid<untracked, Kernel>), &functor, shape);
  }
  template <class Kernel, class T>
  void launch(std::uint32_t on, const Kernel& kernel, grid shape, const kernel::region<T>& /*r*/,
              const kernel::block_mapping& /*mapping*/) {
    launch(on, kernel, shape);
  }
#endif
  void call(std::uint32_t device, const kernel::library_call& c);

  // One barrier ends the exchange of all items.
  template <class... Item>
  void exchange(const Item&... items) {
    const std::array<std::uint32_t, sizeof...(Item)> ids{items.id...};
    enqueue_exchange({ids.begin(), ids.end()});
  }

  // Measures the time from a barrier of all devices to the end of this device's work.
  template <class F>
  kernel::run_result run(F&& f) {
    begin_run();
    std::forward<F>(f)();
    return end_run();
  }

 private:
  [[noreturn]] static void refuse_updates() {
    throw usage_error("nvshmem cannot send updates of partitioned arrays; use inline");
  }
  struct reduction_memory {
    void* own = nullptr;  // the combination of this device's partial results
    // Two arrays [rank][n] in symmetric memory. Exchanges use the two arrays in turn.
    std::array<void*, 2> inboxes{};
  };
  using fold = std::function<void(void*, std::uint32_t, bool, void*, cudaStream_t)>;

  template <class T>
  std::vector<T> read(const void* from, std::uint64_t n) const {
    std::vector<T> values(n);
    if (from != nullptr) read_bytes(values.data(), from, n * sizeof(T));
    return values;
  }
  void write(void* to, const void* from, std::uint64_t bytes);
  void read_bytes(void* to, const void* from, std::uint64_t bytes) const;
  void* take_symmetric(std::uint64_t bytes);
  std::uint32_t add_region(kernel::region_options o, std::uint32_t element_bytes);
  std::uint32_t add_reduction(std::uint64_t n, std::uint32_t copies, std::uint32_t element_bytes);
  void enqueue_kernel(const void* entry, void* functor, grid shape);
  void enqueue_exchange(const std::vector<std::uint32_t>& ids);
  void begin_run();
  kernel::run_result end_run();

  const nvshmem_rank& self_;
  int ordinal_;
  device_memory memory_;
  cudaStream_t stream_ = nullptr;
  std::vector<cudaStream_t> to_peers_;  // one stream for each rank
  cudaEvent_t order_ = nullptr;
  cudaEvent_t start_ = nullptr;
  cudaEvent_t stop_ = nullptr;
  std::vector<kernel::region_state> states_;
  std::vector<reduction_memory> reductions_;  // same index as states_
  std::vector<fold> folds_;                   // same index as states_
  // The loaded kernels, with the shared memory that each of them may use.
  std::map<const void*, std::uint32_t> loaded_;
};

}  // namespace interlace::cuda
