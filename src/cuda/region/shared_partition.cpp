#include "cuda/region/shared_partition.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

#include "base/agreement.hpp"
#include "interlace/base/errors.hpp"
#include "interlace/cuda/check.hpp"
#include "interlace/kernel/partition.hpp"
#include "kernel/packing_tables.hpp"
#include "kernel/region_spec.hpp"

namespace interlace::cuda {

namespace {

constexpr std::uint64_t piece_alignment = 256;
// The size of an element of the region that has the memory.
constexpr std::uint32_t memory_word_bytes = 16;

std::uint64_t padded_bytes(std::uint64_t bytes) {
  return (bytes + piece_alignment - 1) / piece_alignment * piece_alignment;
}

kernel::region_options options_of_spec(const partition_spec& spec, std::uint32_t element_bytes,
                                       std::uint32_t devices, const std::string& label) {
  kernel::region_options o;
  o.mechanism = kernel::parse_mechanism(spec.mechanism);
  if (o.mechanism != kernel::mechanism::inline_stores && o.mechanism != kernel::mechanism::packed) {
    throw usage_error(label + " cannot have the mechanism '" + spec.mechanism + "'; use " +
                      kernel::mechanism_name(kernel::mechanism::inline_stores) + " or " +
                      kernel::mechanism_name(kernel::mechanism::packed));
  }
  if (spec.elements == 0) throw usage_error(label + " has no elements; give 1 or more");
  if (spec.elements > std::numeric_limits<std::uint64_t>::max() / 4 / element_bytes) {
    throw usage_error(label + " of " + std::to_string(spec.elements) + " elements of " +
                      std::to_string(element_bytes) + " bytes is larger than any memory");
  }
  o.boundaries = kernel::part_boundaries(spec.boundaries, spec.elements, devices, label);
  o.packet_bytes = spec.packet_bytes;
  o.queued_updates = spec.queued_updates;
  o.combine_in_packets = spec.combine_in_packets;
  o.update_windows = std::max(spec.update_windows, 1U);
  o.check_updates = spec.checks;
  return o;
}

std::string describe_array(const kernel::region_state& s, combine operation,
                           kernel::number_type type) {
  std::string text = "element type " + std::to_string(static_cast<int>(type)) + "\noperation " +
                     std::to_string(static_cast<int>(operation)) + "\nmechanism " +
                     kernel::mechanism_name(s.options.mechanism) + "\npacket_bytes " +
                     std::to_string(s.options.packet_bytes) + "\nqueued_updates " +
                     std::to_string(s.options.queued_updates) + "\ncombine_in_packets " +
                     (s.options.combine_in_packets ? "on" : "off") + "\nupdate_windows " +
                     std::to_string(s.options.update_windows) + "\nchecks " +
                     (s.options.check_updates ? "on" : "off") + "\nboundaries";
  for (const std::uint64_t b : s.options.boundaries) text += " " + std::to_string(b);
  return text + "\n";
}

}  // namespace

shared_partition::shared_partition(std::shared_ptr<group_state> group, const partition_spec& spec,
                                   std::uint32_t element_bytes, combine operation,
                                   kernel::number_type type)
    : group_(std::move(group)),
      label_(spec.name.empty() ? "the partitioned array"
                               : "the partitioned array '" + spec.name + "'"),
      operation_(operation),
      type_(type) {
  const std::uint32_t devices = group_->devices();
  // A rank that refuses to make the array counts a region, too (region::refuse).
  (void)group_->next_region();
  require_same(group_->agree([&] {
    group_->check();
    kernel::region_options o = options_of_spec(spec, element_bytes, devices, label_);
    try {
      state_ = kernel::make_partition_state(std::move(o), element_bytes, operation, devices);
    } catch (const model_error& e) {
      throw usage_error(label_ + ": " + e.what());
    }
    return describe_array(state_, operation, type);
  }),
               label_);
  std::uint64_t bytes = piece_alignment;
  for (std::uint32_t d = 0; d < devices; ++d) {
    const std::uint64_t queues = kernel::packs_updates(kernel::row_of(state_.options.mechanism))
                                     ? 2 * padded_bytes(kernel::inbox_bytes(state_, d))
                                     : 0;
    bytes = std::max({bytes, padded_bytes(state_.part_size(d) * element_bytes),
                      queues + padded_bytes(kernel::counters_bytes(state_)) + piece_alignment});
  }
  region_spec memory;
  memory.name = spec.name.empty() ? "partitioned array" : spec.name;
  memory.elements = bytes / memory_word_bytes;
  memory.element_bytes = memory_word_bytes;
  memory.mechanism = kernel::mechanism_name(kernel::mechanism::inline_stores);
  memory_ = std::make_unique<shared_region>(group_, memory, std::vector<region_memory>{});
  place();
  clear();
  if (group_->is_shared()) meet();
}

// Fills in the addresses in the memory of all devices.
void shared_partition::place() {
  const bool packs = kernel::packs_updates(kernel::row_of(state_.options.mechanism));
  for (std::uint32_t d = 0; d < group_->devices(); ++d) {
    const std::array<void*, 2>& buffers = memory_->state().buffers[d];
    state_.buffers[d][0] = buffers[0];
    auto* at = static_cast<std::byte*>(buffers[1]);
    if (packs) {
      for (void*& inbox : state_.inboxes[d]) {
        inbox = at;
        at += padded_bytes(kernel::inbox_bytes(state_, d));
      }
      state_.sent[d] = reinterpret_cast<std::uint32_t*>(at);
      at += padded_bytes(kernel::counters_bytes(state_));
    }
    if (state_.options.check_updates) state_.mistakes[d] = reinterpret_cast<update_mistake*>(at);
  }
}

void shared_partition::clear() const {
  const std::uint64_t bytes = memory_->state().elements * memory_word_bytes;
  for (const std::uint32_t d : group_->local_devices()) {
    const current_device on(group_->ordinal(d));
    for (void* buffer : memory_->state().buffers[d]) {
      INTERLACE_CUDA_CHECK(cudaMemset(buffer, 0, bytes));
    }
    INTERLACE_CUDA_CHECK(cudaStreamSynchronize(nullptr));
  }
}

// Waits until all processes have cleared their memory.
void shared_partition::meet() {
  (void)group_->agree([] { return std::string(); });
}

kernel::region_state shared_partition::state(std::uint32_t device) const {
  group_->require_local(device);
  kernel::region_state now = state_;
  now.parity = epochs_[device].parity;
  return now;
}

void shared_partition::begin(std::uint32_t device, cudaStream_t stream) {
  memory_->begin(device, stream);
  epochs_[device].begun = true;
}

std::uint32_t shared_partition::exchange(std::uint32_t device, cudaStream_t stream) {
  memory_->exchange(device, stream);
  epochs_[device].begun = false;
  const std::uint32_t ended = epochs_[device].parity;
  epochs_[device].parity ^= 1U;
  return ended;
}

void shared_partition::require_begun(std::uint32_t device) const {
  group_->require_local(device);
  if (epochs_[device].begun) return;
  throw model_error(label_ + " is updated on device " + std::to_string(device) +
                    ", where no epoch has begun; call begin first");
}

void shared_partition::check(std::uint32_t device, cudaStream_t stream) {
  group_->synchronize(device, stream, {});
  update_mistake* noted = state_.mistakes[device];
  if (noted == nullptr) return;
  const current_device on(group_->ordinal(device));
  update_mistake m;
  INTERLACE_CUDA_CHECK(cudaMemcpy(&m, noted, sizeof(m), cudaMemcpyDefault));
  if (m.made == 0) return;
  INTERLACE_CUDA_CHECK(cudaMemset(noted, 0, sizeof(m)));
  INTERLACE_CUDA_CHECK(cudaStreamSynchronize(nullptr));
  throw model_error(kernel::describe_mistake(m, device, state_.elements));
}

}  // namespace interlace::cuda

namespace interlace {

partition_base::partition_base(const group& g, const partition_spec& spec,
                               std::uint32_t element_bytes, combine operation,
                               kernel::number_type type)
    : state_(std::make_unique<cuda::shared_partition>(g.state_, spec, element_bytes, operation,
                                                      type)) {}
partition_base::~partition_base() = default;

std::uint64_t partition_base::elements() const { return state_->whole().elements; }

kernel::element_range partition_base::part(std::uint32_t device) const {
  const std::vector<std::uint64_t>& b = state_->whole().options.boundaries;
  return {b.at(device), b.at(device + 1)};
}

std::vector<void*> partition_base::parts(std::uint32_t device) const {
  state_->devices().require_local(device);
  std::vector<void*> all;
  for (std::uint32_t d = 0; d < state_->whole().devices(); ++d) {
    all.push_back(state_->whole().buffers[d][0]);
  }
  return all;
}

void partition_base::begin(std::uint32_t device, CUstream_st* stream) {
  state_->begin(device, stream);
}

void partition_base::check(std::uint32_t device, CUstream_st* stream) {
  state_->check(device, stream);
}

kernel::region_state partition_base::state(std::uint32_t device) const {
  return state_->state(device);
}

std::unique_ptr<kernel::packing_table> partition_base::packing(std::uint32_t device,
                                                               grid& shape) const {
  const kernel::region_state s = state_->state(device);
  if (s.devices() == 1 || !kernel::packs_updates(kernel::row_of(s.options.mechanism))) {
    return nullptr;
  }
  int room = 0;
  INTERLACE_CUDA_CHECK(
      cudaDeviceGetAttribute(&room, cudaDevAttrMaxSharedMemoryPerBlockOptin, ordinal(device)));
  return std::make_unique<kernel::packing_table>(kernel::make_packing_table(
      s, device, state_->type(), state_->operation(), static_cast<std::uint64_t>(room),
      static_cast<std::uint32_t>(ordinal(device)), shape));
}

void partition_base::require_begun(std::uint32_t device) const { state_->require_begun(device); }

std::uint32_t partition_base::pass_barrier(std::uint32_t device, CUstream_st* stream) {
  return state_->exchange(device, stream);
}

int partition_base::ordinal(std::uint32_t device) const {
  return state_->devices().ordinal(device);
}

const std::vector<std::uint32_t>& partition_base::local_devices() const {
  return state_->devices().local_devices();
}

}  // namespace interlace
