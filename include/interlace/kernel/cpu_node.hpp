// The common part of nodes whose memory the CPU can access: it makes, fills and reads arrays,
// regions and reductions. Each node decides where their memory comes from, and what launches and
// exchanges do with it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "interlace/kernel.hpp"
#include "interlace/kernel/counting_observer.hpp"
#include "interlace/kernel/placement.hpp"
#include "interlace/kernel/region.hpp"
#include "interlace/kernel/serial_block.hpp"

namespace interlace::kernel {

class cpu_node {
 public:
  virtual ~cpu_node() = default;
  cpu_node(const cpu_node&) = delete;
  cpu_node& operator=(const cpu_node&) = delete;

  std::uint32_t devices() const { return devices_; }

  template <class T>
  local<T> allocate(std::uint32_t device, std::uint64_t n) {
    return {static_cast<T*>(take(device, n * sizeof(T))), n};
  }
  template <class T>
  unified<T> allocate_unified(std::uint64_t n, page_placement pages = {}) {
    return {static_cast<T*>(take_unified(n * sizeof(T), pages)), n};
  }
  template <class T>
  void upload(const local<T>& to, const std::vector<T>& values) {
    check_index("local", values.size(), to.size + 1);
    std::copy(values.begin(), values.end(), to.data);
  }
  template <class T>
  void upload(const unified<T>& to, const std::vector<T>& values) {
    check_index("unified", values.size(), to.size + 1);
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
  region<T> create_region(region_options o) {
    auto state = make_region_state(std::move(o), sizeof(T), devices_);
    for (std::uint32_t d = 0; d < devices_; ++d) {
      for (void*& buffer : state.buffers[d]) buffer = take(d, state.elements * sizeof(T));
    }
    if (stores_to_readers(state.options)) place_readers(state);
    return {add(std::move(state), nullptr)};
  }
  template <class T>
  void set_front(const region<T>& r, const std::vector<T>& values) {
    check_front(values.size(), states_[r.id]);
    for (std::uint32_t d = 0; d < devices_; ++d) {
      for (void* buffer : states_[r.id].buffers[d]) {
        std::copy(values.begin(), values.end(), static_cast<T*>(buffer));
      }
    }
  }
  template <class T>
  std::vector<T> front(const region<T>& r, std::uint32_t device) const {
    const auto seen = view(r, device);
    return {seen.front, seen.front + seen.size};
  }
  template <class T>
  replicated<T> view(const region<T>& r, std::uint32_t device) const {
    return make_view<T>(states_[r.id], r.id, device);
  }

  template <class T, combine Op>
  reduction<T, Op> create_reduction(std::uint64_t n, std::uint32_t copies) {
    auto state = make_reduction_state(n, copies, sizeof(T));
    for (std::uint32_t d = 0; d < devices_; ++d) {
      state.buffers[d][0] = take(d, n * sizeof(T));
      state.partials[d] = take(d, n * copies * sizeof(T));
      std::fill_n(static_cast<T*>(state.buffers[d][0]), n, combine_identity<T, Op>());
      std::fill_n(static_cast<T*>(state.partials[d]), n * copies, combine_identity<T, Op>());
    }
    return {add(std::move(state), &fold_partials<T, Op>)};
  }
  template <class T, combine Op>
  void set_front(const reduction<T, Op>& r, const std::vector<T>& values) {
    check_front(values.size(), states_[r.id]);
    for (std::uint32_t d = 0; d < devices_; ++d) {
      std::copy(values.begin(), values.end(), static_cast<T*>(states_[r.id].buffers[d][0]));
    }
  }
  template <class T, combine Op>
  std::vector<T> front(const reduction<T, Op>& r, std::uint32_t device) const {
    const auto seen = view(r, device);
    return {seen.front, seen.front + seen.size};
  }
  template <class T, combine Op>
  reduced<T, Op> view(const reduction<T, Op>& r, std::uint32_t device) const {
    return make_reduced_view<T, Op>(states_[r.id], device);
  }

 protected:
  explicit cpu_node(std::uint32_t devices) : devices_(devices) {}

  // Combines a reduction's partials into its fronts.
  void fold(std::uint32_t id) { folds_[id](states_[id], devices_); }
  // Copies a delivery between the buffers with this parity.
  void deliver(std::uint32_t id, const delivery& d, std::uint32_t parity);
  // Exchanges a region or reduction at once.
  void exchange_now(std::uint32_t id);
  // Runs a block for its result alone.
  template <class Kernel>
  void run_block(const Kernel& kernel, grid shape, std::uint64_t index, std::uint32_t warp_width) {
    serial_block<counting_observer> block(counted_, memory_, index, shape, warp_width);
    kernel(block);
  }
  // Accesses of all blocks that run_block ran.
  std::uint64_t counted_accesses() const { return counted_.accesses(); }

  std::vector<region_state> states_;  // one for each region and reduction; the index is the id
  block_memory memory_;               // the memory of the block that runs

 private:
  using fold_function = void (*)(region_state&, std::uint32_t devices);

  // Allocates memory that lives as long as the node, with every byte 0xff.
  virtual void* take(std::uint32_t device, std::uint64_t bytes) = 0;
  virtual void* take_unified(std::uint64_t bytes, const page_placement& pages) = 0;
  // The node calls this when a region or reduction gets its id. Ids count from 0.
  virtual void adding(std::uint32_t id, const region_state& state) = 0;

  std::uint32_t add(region_state state, fold_function folding);
  void place_readers(region_state& state);

  std::uint32_t devices_;
  std::vector<fold_function> folds_;  // the index is the id; null for regions
  counting_observer counted_;
};

}  // namespace interlace::kernel
