#include "interlace/host/node.hpp"

#include <cstring>
#include <string>
#include <utility>

#include "interlace/base/errors.hpp"

namespace interlace::host {

node::node(options o) : cpu_node(o.devices), options_(o) {
  if (o.devices == 0 || o.devices > max_devices) {
    throw usage_error("a node has 1 to " + std::to_string(max_devices) + " devices, not " +
                      std::to_string(o.devices));
  }
  if (o.checks) checker_ = std::make_unique<checking_observer>(o.devices, o.warp_width);
}

void* node::take(std::uint32_t /*device*/, std::uint64_t bytes) {
  // The additional bytes leave room for 64-byte alignment, which vector types of some kernels need.
  allocations_.push_back(std::make_unique_for_overwrite<std::byte[]>(bytes + 64));
  auto address = reinterpret_cast<std::uintptr_t>(allocations_.back().get());
  address = (address + 63) / 64 * 64;
  auto* data = reinterpret_cast<void*>(address);
  std::memset(data, 0xff, bytes);
  if (checker_) checker_->add_memory(data, bytes);
  return data;
}

// On this node a mechanism only decides whether a region is accepted. An exchange copies the stored
// elements in the same way for every mechanism.
void node::adding(std::uint32_t id, const kernel::region_state& state) {
  kernel::check_has(kernel::node_kind::host, state.options.mechanism);
  if (checker_ && state.is_region()) checker_->add_region(id, state);
}

void node::exchange_one(std::uint32_t id) {
  updated_before_.resize(states_.size(), 0);
  updated_.resize(states_.size(), 0);
  updated_before_[id] = std::exchange(updated_[id], updated_bytes(id));
  exchange_now(id);
  if (checker_ && states_[id].is_region()) checker_->end_epoch(id);
}

double node::sent_bytes(std::uint32_t id) const {
  const kernel::region_state& state = states_[id];
  if (state.is_partition) return updated_[id] - updated_before_[id];
  if (state.is_reduction) return 0;
  std::uint64_t elements = 0;
  for (const kernel::delivery& d : state.deliveries()) elements += d.end - d.begin;
  return static_cast<double>(elements * state.element_bytes);
}

double node::updated_bytes(std::uint32_t id) const {
  double updates = 0;
  for (const update_counts& c : update_counters()[id]) updates += static_cast<double>(c.remote);
  return updates * states_[id].element_bytes;
}

kernel::wire_bytes node::delivered() const {
  kernel::wire_bytes wire;
  for (std::uint32_t id = 0; id < states_.size(); ++id) {
    const kernel::region_state& state = states_[id];
    if (state.is_partition) wire.useful += updated_bytes(id);
    if (!state.is_region()) continue;
    const kernel::use_tracker& use = checker_->use(id);
    const double useful =
        static_cast<double>(state.element_bytes) * static_cast<double>(use.used());
    wire.useful += useful;
    wire.wasted += use.epochs() * sent_bytes(id) - useful;
  }
  return wire;
}

}  // namespace interlace::host
