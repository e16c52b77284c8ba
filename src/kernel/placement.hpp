// Where the pages of unified arrays and the blocks of a grid over all devices go.
#pragma once

#include <cstdint>
#include <string>

namespace interlace::kernel {

struct page_placement {
  enum class kind : std::uint8_t {
    round_robin,  // the devices in turn, on from where the last such array ended
    contiguous,   // an equal stretch of each array for each device
    one_device,
  };
  kind how = kind::round_robin;
  std::uint32_t device = 0;  // of one_device

  static page_placement contiguous() { return {kind::contiguous, 0}; }
  static page_placement on(std::uint32_t device) { return {kind::one_device, device}; }
  friend bool operator==(const page_placement&, const page_placement&) = default;
};

// "round-robin", "contiguous" or "gpuN". Throws usage_error for another name and for a device that
// is not there.
page_placement parse_page_placement(const std::string& name, std::uint32_t devices);

// The home of page `page` of an array of so many, of which `before` were placed round robin.
std::uint32_t home_of_page(const page_placement& how, std::uint64_t page, std::uint64_t pages,
                           std::uint64_t before, std::uint32_t devices);

enum class block_placement : std::uint8_t {
  contiguous,   // device d has blocks [d * n, (d + 1) * n), n an equal share, rounded up
  round_robin,  // one after another
};

// "contiguous" or "round-robin"; throws usage_error for another name.
block_placement parse_block_placement(const std::string& name);

// A device's blocks: first, first + stride, ..., so many.
struct block_share {
  std::uint64_t first = 0;
  std::uint64_t stride = 1;
  std::uint64_t count = 0;
};
block_share share_of(std::uint64_t blocks, std::uint32_t devices, std::uint32_t device,
                     block_placement how);

}  // namespace interlace::kernel
