// The common part of nodes whose memory the CPU can access. It makes, fills and reads arrays,
// regions and reductions. Each node decides where the memory comes from, and what launches and
// exchanges do with the memory.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "interlace/base/errors.hpp"
#include "interlace/kernel.hpp"
#include "interlace/kernel/counting_observer.hpp"
#include "interlace/kernel/partition.hpp"
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

  template <class T, combine Op>
  void set_part(const partition<T, Op>& p, std::uint32_t device, const std::vector<T>& values) {
    check_part(values.size(), states_[p.id], device);
    std::copy(values.begin(), values.end(), static_cast<T*>(states_[p.id].buffers[device][0]));
  }
  template <class T, combine Op>
  std::vector<T> part(const partition<T, Op>& p, std::uint32_t device) const {
    const T* values = static_cast<const T*>(states_[p.id].buffers[device][0]);
    return {values, values + states_[p.id].part_size(device)};
  }
  template <class T, combine Op>
  partitioned<T, Op> view(const partition<T, Op>& p, std::uint32_t device) const {
    return make_partitioned_view<T, Op>(states_[p.id], device, &counts_[p.id][device]);
  }
  // The counts of the updates that a device's kernels have made so far.
  template <class T, combine Op>
  const update_counts& counts(const partition<T, Op>& p, std::uint32_t device) const {
    return counts_[p.id][device];
  }

 protected:
  explicit cpu_node(std::uint32_t devices) : devices_(devices) {}

  // Makes a partition. `node` is this node. Its function `launch` runs the kernels that combine the
  // updates that an exchange has delivered.
  template <class T, combine Op, class Node>
  partition<T, Op> make_partition(Node& node, region_options o) {
    auto state = make_partition_state(std::move(o), sizeof(T), Op, devices_);
    for (std::uint32_t d = 0; d < devices_; ++d) {
      state.buffers[d][0] = take(d, state.part_size(d) * sizeof(T));
      if (devices_ == 1) continue;
      if (const auto bytes = partials_bytes(state); bytes != 0) {
        state.partials[d] = take(d, bytes);
        if constexpr (Op != combine::store) {
          std::fill_n(static_cast<T*>(state.partials[d]), state.elements,
                      combine_identity<T, Op>());
        }
      }
      for (void*& inbox : state.inboxes[d]) inbox = take(d, inbox_bytes(state, d));
      const std::uint64_t numbers = counters_bytes(state) / sizeof(std::uint32_t);
      if (numbers == 0) continue;
      state.sent[d] = static_cast<std::uint32_t*>(take(d, counters_bytes(state)));
      std::fill_n(state.sent[d], numbers, 0U);
    }
    const std::uint32_t id = add(std::move(state), nullptr);
    arrivals_[id] = [this, &node, id](std::uint32_t device, std::uint32_t parity) {
      deliver_updates<T, Op>(node, states_[id], device, parity);
    };
    if constexpr (Op != combine::store) {
      folds_[id] = [](region_state& of, std::uint32_t devices) {
        fold_contributions<T, Op>(of, devices);
      };
    }
    return {id};
  }
  // Launches the kernels that combine the updates that the last exchange of a partition delivered.
  // `parity` is the parity of the epoch that this exchange ended.
  void launch_arrivals(std::uint32_t id, std::uint32_t parity) {
    for (std::uint32_t d = 0; d < devices_; ++d) arrivals_[id](d, parity);
  }
  // Copies all contributions to a partition into the inboxes of the owners at once.
  void contribute(std::uint32_t id);
  // For each device, the counts of the updates that the device's kernels have made so far. The
  // list's index is the id of the partition.
  using counts_by_device = std::array<update_counts, max_devices>;
  const std::deque<counts_by_device>& update_counters() const { return counts_; }

  // Combines a reduction's partial results into its fronts.
  void fold(std::uint32_t id) { folds_[id](states_[id], devices_); }
  // Copies the elements of a delivery from the sender's buffer to the receiver's buffer. `parity`
  // is the parity of both buffers.
  void deliver(std::uint32_t id, const delivery& d, std::uint32_t parity);
  // Exchanges a region or reduction at once.
  void exchange_now(std::uint32_t id);
  // Runs a block only for its result. Nothing is checked or timed.
  template <class Kernel>
  void run_block(const Kernel& kernel, grid shape, std::uint64_t index, std::uint32_t warp_width) {
    serial_block<counting_observer> block(counted_, memory_, index, shape, warp_width);
    kernel(block);
    block.finish();
  }
  // The number of accesses of all blocks that run_block has run.
  std::uint64_t counted_accesses() const { return counted_.accesses(); }

  std::vector<region_state> states_;  // one for each region and reduction; the index is the id
  block_memory memory_;               // memory for the block that is running

 private:
  using fold_function = void (*)(region_state&, std::uint32_t devices);

  // Allocates memory that lives as long as the node, with every byte 0xff.
  virtual void* take(std::uint32_t device, std::uint64_t bytes) = 0;
  virtual void* take_unified(std::uint64_t bytes, const page_placement& pages) = 0;
  // The node calls this function when a region or reduction gets its id. Ids count from 0.
  virtual void adding(std::uint32_t id, const region_state& state) = 0;

  std::uint32_t add(region_state state, fold_function folding);
  void place_readers(region_state& state);
  static void check_part(std::uint64_t values, const region_state& state, std::uint32_t device);

  std::uint32_t devices_;
  std::vector<fold_function> folds_;  // the index is the id; null for regions
  // For each id, the function that launches the kernels which combine delivered updates. The
  // function is empty for regions and reductions.
  std::vector<std::function<void(std::uint32_t device, std::uint32_t parity)>> arrivals_;
  // The list is a deque, because views have pointers to its elements.
  mutable std::deque<counts_by_device> counts_;
  counting_observer counted_;
};

}  // namespace interlace::kernel
