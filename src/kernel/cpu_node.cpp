#include "interlace/kernel/cpu_node.hpp"

#include <cstddef>
#include <cstring>
#include <string>
#include <utility>

namespace interlace::kernel {

std::uint32_t cpu_node::add(region_state state, fold_function folding) {
  const auto id = static_cast<std::uint32_t>(states_.size());
  adding(id, state);
  states_.push_back(std::move(state));
  folds_.push_back(folding);
  arrivals_.emplace_back();
  counts_.emplace_back();
  return id;
}

void cpu_node::place_readers(region_state& state) {
  const std::vector<std::uint16_t>& readers = state.options.readers;
  const std::uint64_t bytes = readers.size() * sizeof(std::uint16_t);
  for (std::uint32_t d = 0; d < devices_; ++d) {
    void* placed = take(d, bytes);
    std::memcpy(placed, readers.data(), bytes);
    state.readers[d] = static_cast<const std::uint16_t*>(placed);
  }
}

void cpu_node::deliver(std::uint32_t id, const delivery& d, std::uint32_t parity) {
  const region_state& state = states_[id];
  const std::uint64_t offset = d.begin * state.element_bytes;
  std::memcpy(static_cast<std::byte*>(state.buffers[d.to][parity]) + offset,
              static_cast<const std::byte*>(state.buffers[d.from][parity]) + offset,
              (d.end - d.begin) * state.element_bytes);
}

void cpu_node::exchange_now(std::uint32_t id) {
  region_state& state = states_[id];
  if (state.is_reduction) {
    fold(id);
    return;
  }
  if (state.is_partition && devices_ > 1 && row_of(state.options.mechanism).updates_partials) {
    if (row_of(state.options.mechanism).bound) {
      fold(id);
    } else {
      contribute(id);
    }
  }
  const std::uint32_t before = std::exchange(state.parity, state.parity ^ 1U);
  if (state.is_partition) {
    launch_arrivals(id, before);
    return;
  }
  for (const delivery& d : state.deliveries()) deliver(id, d, state.parity);
}

void cpu_node::contribute(std::uint32_t id) {
  for (std::uint32_t d = 0; d < devices_; ++d) {
    for (const contribution& c : contributions_of(states_[id], d)) {
      std::memcpy(c.inbox, c.from, c.bytes);
    }
  }
}

void cpu_node::check_part(std::uint64_t values, const region_state& state, std::uint32_t device) {
  if (values == state.part_size(device)) return;
  throw model_error("a part of " + std::to_string(state.part_size(device)) +
                    " elements is set from " + std::to_string(values) + " values");
}

}  // namespace interlace::kernel
