// The real node: kernels run on this machine's GPUs, regions are in their memory, and exchanges
// happen between the GPUs without the host.
//
// Every device has one main stream, on which kernels and exchanges are enqueued in order, and copy
// streams for each peer, so that copies to different peers overlap. Copies start after the kernel,
// or the part of it, that wrote their data, and the exchange joins them. The mechanism decides what
// is launched and delivered (cuda/mechanism). run(f) calls f once and records what it enqueues
// (cuda/epoch/recorder). It captures the recording into one graph for each device; devices meet by
// flags in their memory, so no graph depends on another. It launches all graphs after a gate, and
// measures their time by events (cuda/epoch/executor).
#pragma once

#include <cuda_runtime.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "interlace/base/errors.hpp"
#include "interlace/cuda/epoch/arrays.hpp"
#include "interlace/cuda/epoch/kernel_operation.hpp"
#include "interlace/cuda/epoch/options.hpp"
#include "interlace/cuda/region/exchange.hpp"
#include "interlace/kernel.hpp"
#include "interlace/kernel/mapping.hpp"
#include "interlace/kernel/placement.hpp"
#include "interlace/kernel/region.hpp"
#include "interlace/kernel/trace.hpp"
#if defined(__CUDACC__)
#include "interlace/kernel_device.cuh"
#endif

namespace interlace::cuda {

class node {
 public:
  using options = node_options;

  explicit node(options o);
  ~node();
  node(const node&) = delete;
  node& operator=(const node&) = delete;
  node(node&&) = delete;
  node& operator=(node&&) = delete;

  std::uint32_t devices() const;
  int ordinal(std::uint32_t device) const;
  cudaStream_t stream(std::uint32_t device) const;  // the main stream
  // The threads that the multiprocessors of a device hold at a time, for kernels whose registers
  // and shared memory do not limit this.
  std::uint64_t threads_at_once(std::uint32_t device) const;
  // One sentence for each thing that did not go as requested.
  const std::vector<std::string>& remarks() const;
  // Kernels and exchanges in the last run's graphs that were launched early.
  std::uint64_t early_launches() const;

  // The mechanisms' report about the exchanges so far (multi-path: the copy engine's batches). A
  // sentence without its full stop, or empty.
  std::string batches_made() const;

  // Blocks until everything that is enqueued has ended. Throws device_error if any of it failed.
  void synchronize() const;

  template <class T>
  local<T> allocate(std::uint32_t device, std::uint64_t n) {
    return {static_cast<T*>(take(device, n * sizeof(T))), n};
  }
  // An array with pages of 2 MiB, on the devices in turn or where `pages` says. All devices can
  // load and store all pages.
  template <class T>
  unified<T> allocate_unified(std::uint64_t n, const kernel::page_placement& pages = {}) {
    return {static_cast<T*>(take_unified(n * sizeof(T), pages)), n};
  }
  template <class T>
  void upload(const local<T>& to, const std::vector<T>& values) {
    upload(to.data, to.size, values);
  }
  template <class T>
  void upload(const unified<T>& to, const std::vector<T>& values) {
    upload(to.data, to.size, values);
  }
  template <class T>
  std::vector<std::remove_const_t<T>> download(const local<T>& from) const {
    return read<std::remove_const_t<T>>(from.data, from.size);
  }
  template <class T>
  std::vector<T> download(const unified<T>& from) const {
    return read<T>(from.data, from.size);
  }

  template <class T>
  kernel::region<T> create_region(kernel::region_options o) {
    static_assert(std::is_trivially_copyable_v<T>);
    return {add_region(std::move(o), sizeof(T))};
  }
  template <class T>
  void set_front(const kernel::region<T>& r, const std::vector<T>& values) {
    for (std::uint32_t d = 0; d < devices(); ++d) {
      write_front(r.id, d, values.data(), values.size(), sizeof(T));
    }
  }
  template <class T>
  std::vector<T> front(const kernel::region<T>& r, std::uint32_t device) const {
    const kernel::region_state& s = state(r.id);
    return read<T>(s.buffers.at(device).at(s.parity), s.elements);
  }
  template <class T>
  replicated<T> view(const kernel::region<T>& r, std::uint32_t device) const {
    return kernel::make_view<T>(state(r.id), r.id, device);
  }

  template <class T, combine Op>
  kernel::reduction<T, Op> create_reduction(std::uint64_t n, std::uint32_t copies) {
    const auto id = add_reduction(n, copies, sizeof(T), element_type_of<T>(), Op);
    for (std::uint32_t d = 0; d < devices(); ++d) {
      write(state(id).buffers[d][0], std::vector<T>(n, combine_identity<T, Op>()).data(),
            n * sizeof(T));
      write(state(id).partials[d], std::vector<T>(n * copies, combine_identity<T, Op>()).data(),
            n * copies * sizeof(T));
    }
    return {id};
  }
  template <class T, combine Op>
  void set_front(const kernel::reduction<T, Op>& r, const std::vector<T>& values) {
    for (std::uint32_t d = 0; d < devices(); ++d) {
      write_front(r.id, d, values.data(), values.size(), sizeof(T));
    }
  }
  template <class T, combine Op>
  std::vector<T> front(const kernel::reduction<T, Op>& r, std::uint32_t device) const {
    return read<T>(state(r.id).buffers.at(device)[0], state(r.id).elements);
  }
  template <class T, combine Op>
  reduced<T, Op> view(const kernel::reduction<T, Op>& r, std::uint32_t device) const {
    return kernel::make_reduced_view<T, Op>(state(r.id), device);
  }

#if defined(__CUDACC__)
  template <class Kernel>
  void launch(std::uint32_t device, const Kernel& kernel, grid shape) {
    kernel_operation k = describe(kernel, shape);
    k.entry = reinterpret_cast<const void*>(&device::run_grid<device::untracked, Kernel>);
    add_kernel(device, std::move(k));
  }
  // Refuses round-robin placement, because a launch is a range of blocks.
  template <class Kernel>
  void launch_over(const Kernel& kernel, grid shape, kernel::block_placement how) {
    kernel_operation k = describe(kernel, shape);
    k.entry = reinterpret_cast<const void*>(&device::run_ranged<device::untracked, Kernel>);
    add_kernel_over(k, how);
  }
  // The mechanism of `r` decides how the kernel's stores reach the subscribers. All regions that
  // one kernel writes must have the same mechanism. Under `split`, the mappings of an epoch's
  // launches must cover everything that is delivered. Where chunks are tracked, `r` must be the
  // only region that the kernel writes or publishes.
  template <class Kernel, class T>
  void launch(std::uint32_t device, const Kernel& kernel, grid shape, const kernel::region<T>& r,
              const kernel::block_mapping& mapping) {
    const auto entry = [](auto* function) { return reinterpret_cast<const void*>(function); };
    const kernel_entries entries{
        .whole = entry(&device::run_grid<device::untracked, Kernel>),
        .ranged = entry(&device::run_ranged<device::untracked, Kernel>),
        .stores_inline = entry(&device::run_grid<device::inline_stores, Kernel>),
        .announces = entry(&device::run_tracked<Kernel>),
        .type = &typeid(Kernel)};
    add_launch(device, describe(kernel, shape), entries, r.id, mapping);
  }

  // Runs the kernel at once, blocks until it ends, and counts the accesses of its warps. Must not
  // be called in run. It changes memory like a launch that writes no region.
  template <class Kernel>
  kernel::trace_totals trace(std::uint32_t device, const Kernel& kernel, grid shape) {
    kernel_operation k = describe(kernel, shape);
    k.entry = reinterpret_cast<const void*>(&device::run_traced<Kernel>);
    return count_accesses(device, k);
  }

  // Runs the kernel at once, one range of its blocks after another, and passes its warps' accesses
  // to views to `take`. Blocks until done. Must not be called in run. It changes memory like a
  // launch that writes no region; with `stores_inline`, like a launch that writes a region by
  // inline stores.
  template <class Kernel>
  void record(std::uint32_t device, const Kernel& kernel, grid shape,
              const kernel::access_taker& take, bool stores_inline = false) {
    kernel_operation k = describe(kernel, shape);
    k.entry =
        stores_inline
            ? reinterpret_cast<const void*>(&device::run_recorded<device::traced_inline, Kernel>)
            : reinterpret_cast<const void*>(&device::run_recorded<device::traced, Kernel>);
    record_accesses(device, k, take);
  }
#endif
  // The memory that views of a device can refer to so far.
  const std::vector<memory_range>& memory(std::uint32_t device) const;

  void call(std::uint32_t device, kernel::library_call c);

  template <class... Item>
  void exchange(const Item&... items) {
    const std::array<std::uint32_t, sizeof...(Item)> ids{items.id...};
    add_exchange({ids.begin(), ids.end()});
  }

  // Calls f once. What f launches and exchanges runs before run returns. Times cover only this
  // work, without host time.
  template <class F>
  kernel::run_result run(F&& f, const run_options& o = {}) {
    begin_recording();
    try {
      std::forward<F>(f)();
      return execute(o);
    } catch (...) {
      cancel_recording();
      throw;
    }
  }

 private:
#if defined(__CUDACC__)
  template <class Kernel>
  kernel_operation describe(const Kernel& kernel, grid shape) {
    static_assert(std::is_trivially_copyable_v<Kernel>, "kernels are copied to the device");
    static_assert(alignof(Kernel) <= alignof(std::max_align_t));
    static_assert(sizeof(Kernel) <= 4000, "a kernel's members are launch parameters: 4 KB at most");
    if (constexpr auto fixed = device::fixed_threads<Kernel>(); fixed != 0) {
      if (shape.threads != fixed) {
        throw model_error("a kernel for " + std::to_string(fixed) + " threads is launched with " +
                          std::to_string(shape.threads));
      }
    }
    kernel_operation k;
    k.type_name = typeid(Kernel).name();
    k.functor.resize(sizeof(Kernel));
    std::memcpy(k.functor.data(), &kernel, sizeof(Kernel));
    k.shape = shape;
    return k;
  }
#endif

  template <class T>
  std::vector<T> read(const void* from, std::uint64_t n) const {
    std::vector<T> values(n);
    read_bytes(values.data(), from, n * sizeof(T));
    return values;
  }

  template <class T>
  void upload(T* to, std::uint64_t size, const std::vector<T>& values) {
    if (values.size() > size) {
      throw model_error("an upload of " + std::to_string(values.size()) + " elements to " +
                        std::to_string(size));
    }
    write(to, values.data(), values.size() * sizeof(T));
  }

  void* take(std::uint32_t device, std::uint64_t bytes);
  void* take_unified(std::uint64_t bytes, const kernel::page_placement& pages);
  void write(void* to, const void* from, std::uint64_t bytes);
  void read_bytes(void* to, const void* from, std::uint64_t bytes) const;
  void write_front(std::uint32_t id, std::uint32_t device, const void* values, std::uint64_t n,
                   std::uint64_t element_bytes);
  const kernel::region_state& state(std::uint32_t id) const;
  std::uint32_t add_region(kernel::region_options o, std::uint32_t element_bytes);
  std::uint32_t add_reduction(std::uint64_t n, std::uint32_t copies, std::uint32_t element_bytes,
                              element_type type, combine operation);
  void add_kernel(std::uint32_t device, kernel_operation k);
  void add_kernel_over(const kernel_operation& k, kernel::block_placement how);
  void add_launch(std::uint32_t device, kernel_operation k, const kernel_entries& entries,
                  std::uint32_t region, const kernel::block_mapping& mapping);
  void add_exchange(const std::vector<std::uint32_t>& ids);
  kernel::trace_totals count_accesses(std::uint32_t device, const kernel_operation& k);
  void record_accesses(std::uint32_t device, const kernel_operation& k,
                       const kernel::access_taker& take);
  void begin_recording();
  void cancel_recording();
  kernel::run_result execute(const run_options& o);

  struct parts;
  std::unique_ptr<parts> parts_;
};

}  // namespace interlace::cuda
