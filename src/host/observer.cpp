#include "interlace/host/observer.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "interlace/base/errors.hpp"
#include "kernel/chunks.hpp"

namespace interlace::host {

namespace {

bool holds(const std::vector<kernel::element_range>& ranges, std::uint64_t element) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [&](const auto& r) { return element >= r.begin && element < r.end; });
}

}  // namespace

void checking_observer::add_region(std::uint32_t id, const kernel::region_state& state) {
  // A reduction has an id, too, so it gets an empty entry. No kernel stores to a reduction through
  // a replicated view.
  while (regions_.size() < id) regions_.push_back({{}, {devices_, 0, {}}, {}});
  regions_.push_back({std::vector<std::uint8_t>(state.elements, 0),
                      {devices_, state.elements, state.options.boundaries},
                      state});
}

void checking_observer::begin_block(std::uint32_t device, std::uint64_t block, std::uint32_t region,
                                    const kernel::block_mapping* mapping) {
  device_ = device;
  block_ = block;
  region_ = region;
  has_mapping_ = mapping != nullptr;
  if (has_mapping_) mapped_ = mapping->writes(block);
}

void checking_observer::end_block() {
  if (!published_.empty()) {
    const auto missing = kernel::subtract_ranges(mapped_, published_);
    if (!missing.empty()) refuse("publishes, but not", missing.front().begin);
  }
  mapped_.clear();
  stored_.clear();
  published_.clear();
}

void checking_observer::refuse(const std::string& what, std::uint64_t element) const {
  std::string where;
  const auto chunks = kernel::cut_chunks(regions_[region_].state, device_);
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    if (element < chunks[c].begin || element >= chunks[c].end) continue;
    where = " (chunk " + std::to_string(c) + " of device " + std::to_string(device_) + ")";
  }
  throw model_error("block " + std::to_string(block_) + " of device " + std::to_string(device_) +
                    " " + what + " element " + std::to_string(element) + " of region " +
                    std::to_string(region_) + where);
}

void checking_observer::on_publish(std::uint32_t region, std::uint64_t begin, std::uint64_t end) {
  if (!has_mapping_ || begin >= end) return;
  if (region != region_) {
    throw model_error("block " + std::to_string(block_) + " of device " + std::to_string(device_) +
                      " publishes region " + std::to_string(region) + ", but its launch writes " +
                      std::to_string(region_));
  }
  const std::vector<kernel::element_range> range{{begin, end}};
  const auto outside = kernel::subtract_ranges(range, mapped_);
  if (!outside.empty()) {
    refuse("publishes an element that its mapping does not name:", outside.front().begin);
  }
  stored_ = kernel::merge_ranges(std::move(stored_));
  const auto early = kernel::subtract_ranges(range, stored_);
  if (!early.empty()) refuse("publishes before it has stored", early.front().begin);
  const auto fresh = kernel::subtract_ranges(range, published_);
  if (fresh != range) {
    const auto twice = kernel::subtract_ranges(range, fresh);
    refuse("publishes twice", twice.front().begin);
  }
  published_.push_back(range.front());
  published_ = kernel::merge_ranges(std::move(published_));
}

void checking_observer::end_epoch(std::uint32_t id) {
  auto& r = regions_[id];
  std::fill(r.writer.begin(), r.writer.end(), std::uint8_t{0});
  r.use.end_epoch();
}

kernel::launch_work checking_observer::end_launch() {
  kernel::launch_work work;
  work.device = device_;
  footprint_.take(work);
  work.operations = std::exchange(operations_, {});
  return work;
}

void checking_observer::on_shuffle(std::uint32_t /*warp*/, std::uint32_t /*n*/, operation kind,
                                   std::uint32_t operations) {
  const std::uint64_t all = std::uint64_t{operations} * warp_width_;
  if (kind == operation::fp32) operations_.fp32 += all;
  if (kind == operation::fp64) operations_.fp64 += all;
  if (kind == operation::integer) operations_.integer += all;
  if (kind == operation::special) operations_.special += all;
}

std::uint32_t checking_observer::on_access(const kernel::access& a) {
  using kernel::access_kind;
  if (a.space != kernel::memory_space::shared) {
    if (a.kind != access_kind::store) footprint_.load(a.address, a.bytes);
    if (a.kind != access_kind::load && a.kind != access_kind::load_index) {
      footprint_.store(a.address, a.bytes);
    }
  }
  if (a.space != kernel::memory_space::replicated) return kernel::no_instruction;
  auto& r = regions_[a.region];
  if (a.kind != kernel::access_kind::store) {
    if (r.use.stale(a.element)) {
      throw model_error("block " + std::to_string(block_) + " of device " +
                        std::to_string(device_) + " reads element " + std::to_string(a.element) +
                        " of region " + std::to_string(a.region) +
                        ", which an earlier epoch stored, but not the last epoch");
    }
    if (!r.state.receives(device_, a.element)) {
      throw model_error("block " + std::to_string(block_) + " of device " +
                        std::to_string(device_) + " reads element " + std::to_string(a.element) +
                        " of region " + std::to_string(a.region) +
                        ", to which the device does not subscribe");
    }
    r.use.read(device_, a.element);
    return kernel::no_instruction;
  }
  std::uint8_t& writer = r.writer[a.element];
  if (writer != 0 && writer != device_ + 1) {
    throw model_error("element " + std::to_string(a.element) + " of region " +
                      std::to_string(a.region) + " is written by device " +
                      std::to_string(writer - 1) + " and device " + std::to_string(device_) +
                      " in one epoch (block " + std::to_string(block_) + ")");
  }
  r.use.wrote(a.element);
  writer = static_cast<std::uint8_t>(device_ + 1);
  if (!has_mapping_ || a.region != region_) return kernel::no_instruction;
  if (!holds(mapped_, a.element))
    refuse("writes an element that its mapping does not name:", a.element);
  if (holds(published_, a.element)) refuse("writes after it has published", a.element);
  if (!stored_.empty() && stored_.back().end == a.element) {
    ++stored_.back().end;
  } else {
    stored_.push_back({a.element, a.element + 1});
  }
  return kernel::no_instruction;
}

}  // namespace interlace::host
