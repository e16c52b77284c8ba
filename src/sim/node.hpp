// The simulated node: kernels run on the CPU while their accesses drive the timing model of a
// described machine. Same interface as the other nodes (kernel/region.hpp).
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "kernel/region.hpp"
#include "kernel/serial_block.hpp"
#include "kernel/trace.hpp"
#include "kernel/use_tracker.hpp"
#include "machine/machine.hpp"
#include "sim/arena.hpp"
#include "sim/simulation.hpp"

namespace interlace::sim {

class node {
 public:
  // Uses the first `devices` GPUs of the machine. `check_interrupt` is called now and then during
  // run() and may throw.
  node(const machine::machine& described, std::uint32_t devices,
       std::function<void()> check_interrupt);

  std::uint32_t devices() const { return devices_; }

  template <class T>
  local<T> allocate(std::uint32_t device, std::uint64_t n) {
    return {reinterpret_cast<T*>(arena_.take(device, n * sizeof(T))), n};
  }
  // One array whose pages go to the devices in turn (4 KiB each).
  template <class T>
  unified<T> allocate_unified(std::uint64_t n) {
    return {reinterpret_cast<T*>(take_unified(n * sizeof(T))), n};
  }
  template <class T>
  void upload(const local<T>& to, const std::vector<T>& values) {
    kernel::check_index("local", values.size(), to.size + 1);
    std::copy(values.begin(), values.end(), to.data);
  }
  template <class T>
  std::vector<T> download(const local<T>& from) const {
    return {from.data, from.data + from.size};
  }
  template <class T>
  void upload(const unified<T>& to, const std::vector<T>& values) {
    kernel::check_index("unified", values.size(), to.size + 1);
    std::copy(values.begin(), values.end(), to.data);
  }
  template <class T>
  std::vector<T> download(const unified<T>& from) const {
    return {from.data, from.data + from.size};
  }

  template <class T>
  kernel::region<T> create_region(kernel::region_options o) {
    auto state = kernel::make_region_state(std::move(o), sizeof(T), devices_);
    for (std::uint32_t d = 0; d < devices_; ++d) {
      for (void*& buffer : state.buffers[d]) buffer = arena_.take(d, state.elements * sizeof(T));
    }
    return {add(std::move(state))};
  }
  template <class T>
  void set_front(const kernel::region<T>& r, const std::vector<T>& values) {
    kernel::check_front(values.size(), states_[r.id]);
    for (std::uint32_t d = 0; d < devices_; ++d) {
      for (void* buffer : states_[r.id].buffers[d]) {
        std::copy(values.begin(), values.end(), static_cast<T*>(buffer));
      }
    }
  }
  template <class T>
  std::vector<T> front(const kernel::region<T>& r, std::uint32_t device) const {
    const auto view = kernel::make_view<T>(states_[r.id], r.id, device);
    return {view.front, view.front + view.size};
  }
  template <class T>
  replicated<T> view(const kernel::region<T>& r, std::uint32_t device) const {
    return kernel::make_view<T>(states_[r.id], r.id, device);
  }

  template <class T, combine Op>
  kernel::reduction<T, Op> create_reduction(std::uint64_t n, std::uint32_t copies) {
    kernel::region_state state;
    state.is_reduction = true;
    state.element_bytes = sizeof(T);
    state.elements = n;
    state.copies = copies;
    for (std::uint32_t d = 0; d < devices_; ++d) {
      state.buffers[d][0] = arena_.take(d, n * sizeof(T));
      state.partials[d] = arena_.take(d, n * copies * sizeof(T));
      std::fill_n(static_cast<T*>(state.buffers[d][0]), n, combine_identity<T, Op>());
      std::fill_n(static_cast<T*>(state.partials[d]), n * copies, combine_identity<T, Op>());
    }
    const auto id = add(std::move(state));
    folds_[id] = &kernel::fold_partials<T, Op>;
    return {id};
  }
  template <class T, combine Op>
  void set_front(const kernel::reduction<T, Op>& r, const std::vector<T>& values) {
    kernel::check_front(values.size(), states_[r.id]);
    for (std::uint32_t d = 0; d < devices_; ++d) {
      std::copy(values.begin(), values.end(), static_cast<T*>(states_[r.id].buffers[d][0]));
    }
  }
  template <class T, combine Op>
  std::vector<T> front(const kernel::reduction<T, Op>& r, std::uint32_t device) const {
    const T* data = static_cast<const T*>(states_[r.id].buffers[device][0]);
    return {data, data + states_[r.id].elements};
  }
  template <class T, combine Op>
  reduced<T, Op> view(const kernel::reduction<T, Op>& r, std::uint32_t device) const {
    return kernel::make_reduced_view<T, Op>(states_[r.id], device);
  }

  template <class Kernel>
  void launch(std::uint32_t device, const Kernel& kernel, grid shape) {
    enqueue_kernel(device, shape, runner(kernel, shape), none, nullptr);
  }
  template <class Kernel, class T>
  void launch(std::uint32_t device, const Kernel& kernel, grid shape, const kernel::region<T>& r,
              const kernel::block_mapping& mapping) {
    enqueue_kernel(device, shape, runner(kernel, shape), r.id, &mapping);
  }

  // Runs the kernel at once and without time, and counts the accesses of its warps by the machine's
  // L1 lines. Not inside of run. It does to memory what a launch would, to the devices' own
  // replicas of regions alone; which elements of regions it uses is not counted.
  template <class Kernel>
  kernel::trace_totals trace(std::uint32_t device, const Kernel& kernel, grid shape) const {
    return trace_blocks(device, shape, runner(kernel, shape));
  }

  void call(std::uint32_t device, kernel::library_call c) {
    kernel::check_call(c, c.on_cpu, device, devices_);
    streams_[device].last = {simulation_.add_call(device, std::move(c), streams_[device].last)};
  }

  template <class... Item>
  void exchange(const Item&... items) {
    enqueue_exchange({items.id...});
  }

  template <class F>
  kernel::run_result run(F&& enqueue) {
    enqueue();
    return finish();
  }

 private:
  template <class Kernel>
  block_function runner(const Kernel& kernel, grid shape) const {
    return [kernel, shape, width = simulation_.described().gpu.warp_width](
               std::uint64_t index, recorder& record, kernel::block_memory& memory) {
      kernel::serial_block<recorder> block(record, memory, index, shape, width);
      kernel(block);
    };
  }

  std::byte* take_unified(std::uint64_t bytes);
  std::uint32_t add(kernel::region_state state);
  recorder::settings recorded_by(std::uint32_t device) const;
  kernel::trace_totals trace_blocks(std::uint32_t device, grid shape,
                                    const block_function& block) const;
  void enqueue_kernel(std::uint32_t device, grid shape, const block_function& block,
                      std::uint32_t region, const kernel::block_mapping* mapping);
  task_id enqueue_copy(std::uint32_t region, const kernel::delivery& d,
                       const std::vector<task_id>& after);
  // Copies of one owner, which run one after another where they share a link.
  void enqueue_copies(std::uint32_t region, const std::vector<kernel::delivery>& deliveries,
                      const std::vector<task_id>& after);
  void enqueue_exchange(const std::vector<std::uint32_t>& ids);
  kernel::run_result finish();

  std::uint32_t devices_;
  arena arena_;
  simulation simulation_;
  std::vector<kernel::region_state> states_;
  std::vector<void (*)(kernel::region_state&, std::uint32_t)> folds_;
  std::vector<std::unique_ptr<kernel::use_tracker>> trackers_;  // by id; null for reductions

  struct stream {
    std::vector<task_id> last;       // what the next kernel waits for
    std::vector<task_id> copies;     // of this epoch
    std::vector<task_id> last_copy;  // to each device, for those that share a link
  };
  std::vector<stream> streams_;
};

}  // namespace interlace::sim
