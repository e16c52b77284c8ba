#include "host/observer.hpp"

#include <algorithm>
#include <string>

#include "base/errors.hpp"

namespace interlace::host {

void checking_observer::add_region(std::uint32_t id, const kernel::region_state& state) {
  // Reductions take an id too; nobody stores to them through a replicated view.
  while (regions_.size() < id) regions_.push_back({{}, {devices_, 0, {}}});
  regions_.push_back({std::vector<std::uint8_t>(state.elements, 0),
                      {devices_, state.elements, state.options.boundaries}});
}

void checking_observer::begin_block(std::uint32_t device, std::uint64_t block,
                                    const kernel::block_mapping* mapping) {
  device_ = device;
  block_ = block;
  has_mapping_ = mapping != nullptr;
  if (has_mapping_) mapped_ = mapping->writes(block);
}

void checking_observer::end_epoch(std::uint32_t id) {
  auto& r = regions_[id];
  std::fill(r.writer.begin(), r.writer.end(), std::uint8_t{0});
  r.use.end_epoch();
}

std::uint32_t checking_observer::on_access(const kernel::access& a) {
  if (a.space != kernel::memory_space::replicated) return kernel::no_instruction;
  auto& r = regions_[a.region];
  if (a.kind != kernel::access_kind::store) {
    if (r.use.stale(a.element)) {
      throw model_error("block " + std::to_string(block_) + " of device " +
                        std::to_string(device_) + " reads element " + std::to_string(a.element) +
                        " of region " + std::to_string(a.region) +
                        ", which an earlier epoch stored and the last one did not");
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
  if (has_mapping_ && std::none_of(mapped_.begin(), mapped_.end(), [&](const auto& m) {
        return a.element >= m.begin && a.element < m.end;
      })) {
    throw model_error("block " + std::to_string(block_) + " of device " + std::to_string(device_) +
                      " writes element " + std::to_string(a.element) + " of region " +
                      std::to_string(a.region) + ", which its mapping does not name");
  }
  return kernel::no_instruction;
}

}  // namespace interlace::host
