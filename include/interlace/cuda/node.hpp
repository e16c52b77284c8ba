// The real node. Kernels run on this machine's GPUs, regions are in the GPUs' memory, and the GPUs
// exchange data without the host.
//
// Every device has one main stream, which holds kernels and exchanges in order. A device also has
// copy streams for each peer, so that copies to different peers overlap. A copy starts after the
// kernel, or the part of a kernel, that wrote its data. The exchange waits for all copies. The
// mechanism decides what is launched and delivered (cuda/mechanism). run(f) calls f once and
// records the operations that f enqueues (cuda/epoch/recorder). run then captures the recorded
// operations into one graph for each device. Devices meet by flags in their memory, so no graph
// depends on another graph. Finally, run launches all graphs after one gate and measures their time
// by events (cuda/epoch/executor).
#pragma once

#include <cuda_runtime.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
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
#include "interlace/kernel/packing_table.hpp"
#include "interlace/kernel/partition.hpp"
#include "interlace/kernel/placement.hpp"
#include "interlace/kernel/region.hpp"
#include "interlace/kernel/trace.hpp"
#if defined(__CUDACC__)
#include "interlace/kernel_device.cuh"
#endif

namespace interlace::cuda {

// The real node, on GPUs of this machine. At most one thread at a time may use a node. Once work on
// the GPUs has failed, the node is unusable: later launches, exchanges and copies throw
// device_error with the first reason.
class node {
 public:
  // The options with which a node is made: its GPUs, its deadline and its copies.
  using options = node_options;

  // Opens the GPUs and makes their streams. Throws usage_error if a GPU does not exist or if the
  // deadline is out of range. Throws device_error if CUDA fails.
  explicit node(options o);
  // Waits for the enqueued work, and frees streams and arrays. The caller's current device does not
  // change.
  ~node();
  node(const node&) = delete;
  node& operator=(const node&) = delete;
  node(node&&) = delete;
  node& operator=(node&&) = delete;

  // The number of devices of this node.
  std::uint32_t devices() const;
  // CUDA's number of the GPU of a device.
  int ordinal(std::uint32_t device) const;
  cudaStream_t stream(std::uint32_t device) const;  // the main stream
  // The number of threads that the multiprocessors of a device hold at a time, for kernels that are
  // not limited by their registers and shared memory.
  std::uint64_t threads_at_once(std::uint32_t device) const;
  // One sentence for each thing that did not go as requested.
  const std::vector<std::string>& remarks() const;
  // The number of kernels and exchanges in the last run's graphs that were launched early.
  std::uint64_t early_launches() const;

  // The mechanisms' report about the exchanges so far. (multi-path reports the copy engine's
  // batches.) The report is one sentence without its full stop, or empty.
  std::string batches_made() const;

  // Blocks until all enqueued work has ended. Throws device_error if any of the work failed.
  void synchronize() const;

  // An array of `n` elements in a device's memory. It lives as long as the node, and every byte
  // starts as 0xff. Throws model_error inside of run, and device_error if there is not enough
  // memory.
  template <class T>
  local<T> allocate(std::uint32_t device, std::uint64_t n) {
    return {static_cast<T*>(take(device, n * sizeof(T))), n};
  }
  // Makes a unified array of `n` elements, with pages of 2 MiB. The pages are placed on the devices
  // in turn, or as `pages` says. All devices can load and store all pages.
  template <class T>
  unified<T> allocate_unified(std::uint64_t n, const kernel::page_placement& pages = {}) {
    return {static_cast<T*>(take_unified(n * sizeof(T), pages)), n};
  }
  // Copies values to the start of an array, and blocks until all earlier work and the copy have
  // ended. Throws model_error inside of run, or if there are more values than elements.
  template <class T>
  void upload(const local<T>& to, const std::vector<T>& values) {
    upload(to.data, to.size, values);
  }
  // Copies values to the start of a unified array, and blocks until all earlier work and the copy
  // have ended. Throws model_error inside of run, or if there are more values than elements.
  template <class T>
  void upload(const unified<T>& to, const std::vector<T>& values) {
    upload(to.data, to.size, values);
  }
  // The values of an array after all earlier work has ended. Throws model_error inside of run.
  template <class T>
  std::vector<std::remove_const_t<T>> download(const local<T>& from) const {
    return read<std::remove_const_t<T>>(from.data, from.size);
  }
  // The values of a unified array after all earlier work has ended. Throws model_error inside of
  // run.
  template <class T>
  std::vector<T> download(const unified<T>& from) const {
    return read<T>(from.data, from.size);
  }

  // Makes a region. A region has two buffers on each device, and every byte starts as 0xff. Throws
  // model_error inside of run, or if the options contradict each other. Throws usage_error if this
  // node does not have the mechanism, or if a parameter is out of its bounds.
  template <class T>
  kernel::region<T> create_region(kernel::region_options o) {
    static_assert(std::is_trivially_copyable_v<T>);
    return {add_region(std::move(o), sizeof(T))};
  }
  // Fills both buffers of every replica with `values`, and blocks until all buffers are filled.
  // Throws model_error inside of run, or if the number of values is not the number of elements.
  template <class T>
  void set_front(const kernel::region<T>& r, const std::vector<T>& values) {
    for (std::uint32_t d = 0; d < devices(); ++d) {
      write_front(r.id, d, values.data(), values.size(), sizeof(T));
    }
  }
  // The replica that one device holds after the last exchange. Elements that the device does not
  // receive are unspecified. Throws model_error inside of run.
  template <class T>
  std::vector<T> front(const kernel::region<T>& r, std::uint32_t device) const {
    const kernel::region_state& s = state(r.id);
    return read<T>(s.buffers.at(device).at(s.parity), s.elements);
  }
  // The view of the region for kernels of `device`. It is valid until the next exchange of the
  // region is enqueued.
  template <class T>
  replicated<T> view(const kernel::region<T>& r, std::uint32_t device) const {
    return kernel::make_view<T>(state(r.id), r.id, device);
  }

  // Makes a reduction of `n` elements. Each element starts as the identity of `Op`. Blocks
  // accumulate each element in `copies` places. Throws model_error inside of run, or if `n` or
  // `copies` is 0.
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
  // Fills the front of a reduction on every device with `values`, and blocks until all fronts are
  // filled. Throws model_error inside of run, or if the number of values is not the number of
  // elements.
  template <class T, combine Op>
  void set_front(const kernel::reduction<T, Op>& r, const std::vector<T>& values) {
    for (std::uint32_t d = 0; d < devices(); ++d) {
      write_front(r.id, d, values.data(), values.size(), sizeof(T));
    }
  }
  // The combined values that one device holds after the last exchange. Throws model_error inside of
  // run.
  template <class T, combine Op>
  std::vector<T> front(const kernel::reduction<T, Op>& r, std::uint32_t device) const {
    return read<T>(state(r.id).buffers.at(device)[0], state(r.id).elements);
  }
  // The view of the reduction for kernels of `device`.
  template <class T, combine Op>
  reduced<T, Op> view(const kernel::reduction<T, Op>& r, std::uint32_t device) const {
    return kernel::make_reduced_view<T, Op>(state(r.id), device);
  }

  // The elements of a partition that a device owns, after all earlier work has ended. Throws
  // model_error inside of run.
  template <class T, combine Op>
  std::vector<T> part(const kernel::partition<T, Op>& p, std::uint32_t device) const {
    return read<T>(state(p.id).buffers.at(device)[0], state(p.id).part_size(device));
  }
  // Fills the elements that a device owns with `values`, and blocks until all of them are filled.
  // Throws model_error inside of run, or if the number of values is not the number of elements.
  template <class T, combine Op>
  void set_part(const kernel::partition<T, Op>& p, std::uint32_t device,
                const std::vector<T>& values) {
    if (values.size() != state(p.id).part_size(device)) {
      throw model_error("a part of " + std::to_string(state(p.id).part_size(device)) +
                        " elements is set from " + std::to_string(values.size()) + " values");
    }
    write(state(p.id).buffers.at(device)[0], values.data(), values.size() * sizeof(T));
  }
  // The view of a partition for kernels of `device`. It is valid until the next exchange of the
  // partition is enqueued.
  template <class T, combine Op>
  partitioned<T, Op> view(const kernel::partition<T, Op>& p, std::uint32_t device) const {
    return kernel::make_partitioned_view<T, Op>(state(p.id), device, nullptr);
  }

#if defined(__CUDACC__)
  // Makes a partition. The elements are unspecified until the caller sets the parts. Throws
  // model_error inside of run, or if the boundaries of the parts are not valid. Throws usage_error
  // if the mechanism does not support partitions, or if a parameter is out of its bounds.
  template <class T, combine Op>
  kernel::partition<T, Op> create_partition(kernel::region_options o) {
    const std::uint32_t id =
        add_partition(std::move(o), sizeof(T), Op, kernel::number_type_of<T>());
    if constexpr (Op != combine::store) {
      const std::vector<T> identities(state(id).elements, combine_identity<T, Op>());
      for (std::uint32_t d = 0; d < devices() && state(id).partials[d] != nullptr; ++d) {
        write(state(id).partials[d], identities.data(), identities.size() * sizeof(T));
      }
    }
    arrivals_[id] = [this, id](std::uint32_t device, std::uint32_t parity) {
      kernel::deliver_updates<T, Op>(*this, state(id), device, parity);
    };
    return {id};
  }
  // Enqueues a kernel that updates the partition `p` and no other partition. The mechanism of `p`
  // decides how and when the updates reach the owners.
  template <class Kernel, class T, combine Op>
  void launch(std::uint32_t device, const Kernel& kernel, grid shape,
              const kernel::partition<T, Op>& p) {
    const auto entry = [](auto* function) { return reinterpret_cast<const void*>(function); };
    const kernel_entries entries{.whole = entry(&device::run_grid<device::untracked, Kernel>),
                                 .packs = entry(&device::run_packing<Kernel>),
                                 .type = &typeid(Kernel)};
    add_updates(device, describe(kernel, shape), entries, p.id);
  }

  // Enqueues a kernel that writes no region, in the main stream of a device. The kernel object is
  // copied. It must be trivially copyable, with at most 4000 bytes of members. Throws model_error
  // if the kernel is made for another number of threads.
  template <class Kernel>
  void launch(std::uint32_t device, const Kernel& kernel, grid shape) {
    kernel_operation k = describe(kernel, shape);
    k.entry = reinterpret_cast<const void*>(&device::run_grid<device::untracked, Kernel>);
    add_kernel(device, std::move(k));
  }
  // Enqueues one grid over all devices. The launch on each device is a range of blocks, so the
  // function throws usage_error for round-robin placement.
  template <class Kernel>
  void launch_over(const Kernel& kernel, grid shape, kernel::block_placement how) {
    kernel_operation k = describe(kernel, shape);
    k.entry = reinterpret_cast<const void*>(&device::run_ranged<device::untracked, Kernel>);
    add_kernel_over(k, how);
  }
  // Enqueues a kernel that writes the region `r`. The mechanism of `r` decides how the kernel's
  // stores reach the subscribers. All regions that one kernel writes must have the same mechanism.
  // For `split`, the mappings of an epoch's launches must cover all elements that are delivered. If
  // the mechanism tracks chunks, `r` must be the only region that the kernel writes or publishes.
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

  // Runs the kernel at once, blocks until the kernel ends, and counts the accesses of the kernel's
  // warps. The caller must not call this function in run. The kernel changes memory like a launch
  // that writes no region.
  template <class Kernel>
  kernel::trace_totals trace(std::uint32_t device, const Kernel& kernel, grid shape) {
    kernel_operation k = describe(kernel, shape);
    k.entry = reinterpret_cast<const void*>(&device::run_traced<Kernel>);
    return count_accesses(device, k);
  }

  // Runs the kernel at once, one range of its blocks after another, and blocks until the kernel
  // ends. Passes to `take` the accesses that the kernel's warps make to views. The caller must not
  // call this function in run. The kernel changes memory like a launch that writes no region. With
  // `stores_inline`, it changes memory like a launch that writes a region by inline stores.
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
  // All memory of a device to which views can refer at this time.
  const std::vector<memory_range>& memory(std::uint32_t device) const;

  // Enqueues a library call in the main stream of a device (interlace/kernel/library_call.hpp).
  // Throws model_error if `c.on_gpu` is missing or the device does not exist.
  void call(std::uint32_t device, kernel::library_call c);

  // Enqueues the exchange of regions and reductions, which swaps their front and back. Memory
  // ordering: the exchange releases and acquires at system scope. The kernels that a subscriber
  // runs after the exchange see all values that kernels stored to a region before the exchange.
  // Throws model_error if an exchanged region tracks chunks, and a device with elements has not
  // launched a kernel that writes the region.
  template <class... Item>
  void exchange(const Item&... items) {
    const std::vector<std::uint32_t> ids{items.id...};
    std::vector<std::uint32_t> parities;
    parities.reserve(ids.size());
    for (const std::uint32_t id : ids) parities.push_back(state(id).parity);
    add_exchange(ids);
    for (std::size_t k = 0; k < ids.size(); ++k) {
      const auto arrival = arrivals_.find(ids[k]);
      if (arrival == arrivals_.end()) continue;
      for (std::uint32_t d = 0; d < devices(); ++d) arrival->second(d, parities[k]);
    }
  }

  // Calls f once, runs the launches and exchanges that f enqueues, and returns after they have
  // ended. The measured times cover only this work, without host time.
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
      throw model_error("an upload of " + std::to_string(values.size()) +
                        " elements does not fit in an array of " + std::to_string(size));
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
  std::uint32_t add_partition(kernel::region_options o, std::uint32_t element_bytes,
                              combine operation, kernel::number_type type);
  void add_kernel(std::uint32_t device, kernel_operation k);
  void add_kernel_over(const kernel_operation& k, kernel::block_placement how);
  void add_launch(std::uint32_t device, kernel_operation k, const kernel_entries& entries,
                  std::uint32_t region, const kernel::block_mapping& mapping);
  void add_updates(std::uint32_t device, kernel_operation k, const kernel_entries& entries,
                   std::uint32_t partition);
  void add_exchange(const std::vector<std::uint32_t>& ids);
  kernel::trace_totals count_accesses(std::uint32_t device, const kernel_operation& k);
  void record_accesses(std::uint32_t device, const kernel_operation& k,
                       const kernel::access_taker& take);
  void begin_recording();
  void cancel_recording();
  kernel::run_result execute(const run_options& o);

  struct parts;
  std::unique_ptr<parts> parts_;
  // For each partition, by id, the function that launches the kernels for arrivals. These kernels
  // combine the delivered updates with the elements.
  std::map<std::uint32_t, std::function<void(std::uint32_t device, std::uint32_t parity)>>
      arrivals_;
};

}  // namespace interlace::cuda
