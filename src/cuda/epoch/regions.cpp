#include "cuda/epoch/regions.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>

#include "cuda/mechanism/mechanisms.hpp"
#include "interlace/cuda/check.hpp"
#include "interlace/kernel/partition.hpp"
#include "kernel/packing_tables.hpp"

namespace interlace::cuda {

node_mechanism& node_regions::find_mechanism(kernel::mechanism which) {
  std::unique_ptr<node_mechanism>& how = mechanisms_[which];
  if (how == nullptr) {
    how = make_mechanism(which, {.gpus = gpus_,
                                 .arrays = arrays_,
                                 .regions = states_,
                                 .copies = copies_,
                                 .remarks = remarks_});
  }
  return *how;
}

std::uint32_t node_regions::add_region(kernel::region_options o, std::uint32_t element_bytes) {
  const auto id = static_cast<std::uint32_t>(states_.size());
  node_mechanism& how = find_mechanism(o.mechanism);
  kernel::region_state state =
      kernel::make_region_state(std::move(o), element_bytes, gpus_.count());
  how.prepare(id, state);
  states_.push_back(std::move(state));
  reductions_.emplace_back();
  by_region_.push_back(&how);
  return id;
}

std::uint32_t node_regions::add_partition(kernel::region_options o, std::uint32_t element_bytes,
                                          combine operation, kernel::number_type type) {
  const auto id = static_cast<std::uint32_t>(states_.size());
  node_mechanism& how = find_mechanism(o.mechanism);
  if (o.update_windows == 0 && gpus_.count() > 1) {
    // Devices that share a GPU also share its L2.
    std::uint64_t cache = std::numeric_limits<std::uint64_t>::max();
    for (std::uint32_t d = 0; d < gpus_.count(); ++d) {
      int bytes = 0;
      INTERLACE_CUDA_CHECK(
          cudaDeviceGetAttribute(&bytes, cudaDevAttrL2CacheSize, gpus_.ordinal(d)));
      cache = std::min(cache, static_cast<std::uint64_t>(bytes) / gpus_.sharers(d));
    }
    o.update_windows = kernel::windows_in_cache(o, element_bytes, cache);
  }
  kernel::region_state state =
      kernel::make_partition_state(std::move(o), element_bytes, operation, gpus_.count());
  for (std::uint32_t d = 0; d < gpus_.count(); ++d) {
    state.buffers[d][0] = arrays_.take(d, state.part_size(d) * element_bytes);
    if (state.options.check_updates) {
      constexpr update_mistake none;
      state.mistakes[d] = static_cast<update_mistake*>(arrays_.take(d, sizeof(none)));
      arrays_.write(state.mistakes[d], &none, sizeof(none));
    }
    if (gpus_.count() == 1) continue;
    if (const auto bytes = kernel::partials_bytes(state); bytes != 0) {
      state.partials[d] = arrays_.take(d, bytes);
    }
    for (void*& inbox : state.inboxes[d]) inbox = arrays_.take(d, kernel::inbox_bytes(state, d));
    if (const auto bytes = kernel::outbox_bytes(state); bytes != 0) {
      state.outboxes[d] = arrays_.take(d, bytes);
    }
    const std::uint64_t bytes = kernel::counters_bytes(state);
    if (bytes == 0) continue;
    state.sent[d] = static_cast<std::uint32_t*>(arrays_.take(d, bytes));
    arrays_.write(state.sent[d], std::vector<std::byte>(bytes).data(), bytes);
  }
  if (gpus_.count() > 1) how.prepare_updates(id, state);
  states_.push_back(std::move(state));
  reductions_.emplace_back();
  partitions_[id] = {.operation = operation, .type = type};
  by_region_.push_back(&how);
  return id;
}

std::uint32_t node_regions::add_reduction(std::uint64_t n, std::uint32_t copies,
                                          std::uint32_t element_bytes, element_type type,
                                          combine operation) {
  kernel::region_state state = kernel::make_reduction_state(n, copies, element_bytes);
  reduction_details details{.type = type, .operation = operation, .inboxes = {}};
  for (std::uint32_t d = 0; d < gpus_.count(); ++d) {
    state.buffers[d][0] = arrays_.take(d, n * element_bytes);
    state.partials[d] = arrays_.take(d, n * copies * element_bytes);
    if (n <= small_reduction_elements) {
      details.inboxes[d] = arrays_.take(d, 2 * gpus_.count() * n * element_bytes);
    }
  }
  states_.push_back(std::move(state));
  reductions_.push_back(details);
  by_region_.push_back(nullptr);
  return static_cast<std::uint32_t>(states_.size() - 1);
}

void node_regions::write_front(std::uint32_t id, std::uint32_t device, const void* values,
                               std::uint64_t n, std::uint64_t element_bytes) {
  const kernel::region_state& s = states_.at(id);
  kernel::check_front(n, s);
  arrays_.write(s.buffers[device][0], values, n * element_bytes);
  if (!s.is_reduction) arrays_.write(s.buffers[device][1], values, n * element_bytes);
}

void node_regions::check_updates() const {
  for (const kernel::region_state& s : states_) {
    if (!s.is_partition || !s.options.check_updates) continue;
    for (std::uint32_t d = 0; d < gpus_.count(); ++d) {
      update_mistake m;
      arrays_.read(&m, s.mistakes[d], sizeof(m));
      if (m.made == 0) continue;
      constexpr update_mistake none;
      arrays_.write(s.mistakes[d], &none, sizeof(none));
      throw model_error(kernel::describe_mistake(m, d, s.elements));
    }
  }
}

std::string node_regions::made() const {
  std::string all;
  for (const auto& [which, how] : mechanisms_) {
    const std::string one = how == nullptr ? std::string() : how->made();
    if (!all.empty() && !one.empty()) all += "; ";
    all += one;
  }
  return all;
}

}  // namespace interlace::cuda
