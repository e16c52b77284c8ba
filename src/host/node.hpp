// The reference node: kernels run block by block on the CPU, an exchange copies, nothing is timed.
// With checks on it also counts what the other nodes cannot see: which delivered elements are read,
// who writes what, and what a mapping promised.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/errors.hpp"
#include "host/observer.hpp"
#include "kernel/region.hpp"
#include "kernel/serial_block.hpp"

namespace interlace::host {

class node {
 public:
  struct options {
    std::uint32_t devices = 1;
    std::uint32_t warp_width = 32;
    bool checks =
        false;  // one writer an element and epoch, mapped writes, use of what is delivered
  };
  explicit node(options o);

  std::uint32_t devices() const { return options_.devices; }

  template <class T>
  local<T> allocate(std::uint32_t /*device*/, std::uint64_t n) {
    return {static_cast<T*>(take(n * sizeof(T))), n};
  }
  template <class T>
  unified<T> allocate_unified(std::uint64_t n) {
    return {static_cast<T*>(take(n * sizeof(T))), n};
  }
  template <class T>
  void upload(const local<T>& to, const std::vector<T>& values) {
    kernel::check_index("local", values.size(), to.size + 1);
    std::copy(values.begin(), values.end(), to.data);
  }
  template <class T>
  void upload(const unified<T>& to, const std::vector<T>& values) {
    kernel::check_index("unified", values.size(), to.size + 1);
    std::copy(values.begin(), values.end(), to.data);
  }
  template <class T>
  std::vector<T> download(const local<T>& from) const {
    return {from.data, from.data + from.size};
  }
  template <class T>
  std::vector<T> download(const unified<T>& from) const {
    return {from.data, from.data + from.size};
  }

  template <class T>
  kernel::region<T> create_region(kernel::region_options o) {
    auto state = kernel::make_region_state(std::move(o), sizeof(T), options_.devices);
    for (std::uint32_t d = 0; d < options_.devices; ++d) {
      for (void*& buffer : state.buffers[d]) buffer = take(state.elements * sizeof(T));
    }
    return {add(std::move(state))};
  }
  template <class T>
  void set_front(const kernel::region<T>& r, const std::vector<T>& values) {
    kernel::check_front(values.size(), states_[r.id]);
    for (std::uint32_t d = 0; d < options_.devices; ++d) {
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
    for (std::uint32_t d = 0; d < options_.devices; ++d) {
      state.buffers[d][0] = take(n * sizeof(T));
      state.partials[d] = take(n * copies * sizeof(T));
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
    for (std::uint32_t d = 0; d < options_.devices; ++d) {
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
    execute(device, kernel, shape, nullptr);
  }
  template <class Kernel, class T>
  void launch(std::uint32_t device, const Kernel& kernel, grid shape, const kernel::region<T>&,
              const kernel::block_mapping& mapping) {
    execute(device, kernel, shape, &mapping);
  }

  void call(std::uint32_t device, const kernel::library_call& c) const {
    kernel::check_call(c, c.on_cpu, device, options_.devices);
    c.on_cpu();
  }

  template <class... Item>
  void exchange(const Item&... items) {
    (exchange_one(items.id), ...);
  }

  template <class F>
  kernel::run_result run(F&& enqueue) {
    enqueue();
    kernel::run_result result;
    result.wire_known = options_.checks;
    if (options_.checks) result.wire = delivered();
    return result;
  }

 private:
  using fold_function = void (*)(kernel::region_state&, std::uint32_t devices);

  template <class Kernel>
  void execute(std::uint32_t device, const Kernel& kernel, grid shape,
               const kernel::block_mapping* mapping) {
    for (std::uint64_t b = 0; b < shape.blocks; ++b) {
      if (options_.checks) {
        checker_->begin_block(device, b, mapping);
        kernel::serial_block<checking_observer> block(*checker_, memory_, b, shape,
                                                      options_.warp_width);
        kernel(block);
        checker_->end_block();
      } else {
        silent_observer observer;
        kernel::serial_block<silent_observer> block(observer, memory_, b, shape,
                                                    options_.warp_width);
        kernel(block);
      }
    }
  }

  void* take(std::uint64_t bytes);
  std::uint32_t add(kernel::region_state state);
  void exchange_one(std::uint32_t id);
  kernel::wire_bytes delivered() const;

  options options_;
  kernel::block_memory memory_;
  std::vector<std::unique_ptr<std::byte[]>> allocations_;
  std::vector<kernel::region_state> states_;
  std::vector<fold_function> folds_;
  std::unique_ptr<checking_observer> checker_;
};

}  // namespace interlace::host
