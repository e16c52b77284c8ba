#include "interlace/kernel/placement.hpp"

#include <algorithm>
#include <charconv>

#include "interlace/base/errors.hpp"

namespace interlace::kernel {

page_placement parse_page_placement(const std::string& name, std::uint32_t devices) {
  if (name == "round-robin") return {};
  if (name == "contiguous") return page_placement::contiguous();
  if (name.starts_with("gpu")) {
    std::uint32_t device = 0;
    const char* end = name.data() + name.size();
    const auto read = std::from_chars(name.data() + 3, end, device);
    if (read.ec == std::errc() && read.ptr == end) {
      if (device < devices) return page_placement::on(device);
      throw usage_error("pages cannot be placed on " + name + "; give gpu0 to gpu" +
                        std::to_string(devices - 1));
    }
  }
  throw usage_error("unknown placement '" + name +
                    "' of pages; give round-robin, contiguous or a GPU, such as gpu0");
}

std::uint32_t home_of_page(const page_placement& how, std::uint64_t page, std::uint64_t pages,
                           std::uint64_t before, std::uint32_t devices) {
  switch (how.how) {
    case page_placement::kind::round_robin:
      return static_cast<std::uint32_t>((before + page) % devices);
    case page_placement::kind::contiguous:
      if (pages < devices) return 0;
      return static_cast<std::uint32_t>(
          std::min<std::uint64_t>(page / (pages / devices), devices - 1));
    case page_placement::kind::one_device:
      break;
  }
  return how.device;
}

block_placement parse_block_placement(const std::string& name) {
  if (name == "contiguous") return block_placement::contiguous;
  if (name == "round-robin") return block_placement::round_robin;
  if (name == "filled") return block_placement::filled;
  throw usage_error("unknown placement '" + name +
                    "' of blocks; give contiguous, round-robin or filled");
}

block_share share_of(std::uint64_t blocks, std::uint32_t devices, std::uint32_t device,
                     block_placement how, std::uint64_t units) {
  if (how == block_placement::round_robin) {
    const std::uint64_t mine = blocks > device ? (blocks - device - 1) / devices + 1 : 0;
    return {device, devices, mine};
  }
  const std::uint64_t unit = how == block_placement::filled ? units : 1;
  const std::uint64_t share = (blocks + devices * unit - 1) / (devices * unit) * unit;
  const std::uint64_t first = std::min(blocks, share * device);
  return {first, 1, std::min(blocks, first + share) - first};
}

}  // namespace interlace::kernel
