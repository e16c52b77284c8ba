// The placement of the pages of unified arrays, and of the blocks of a grid that is spread over all
// devices.
#pragma once

#include <cstdint>
#include <string>

namespace interlace::kernel {

struct page_placement {
  enum class kind : std::uint8_t {
    // pages go to the devices in turn, beginning after the device that got the last page of the
    // previous round-robin array
    round_robin,
    // Each device gets an equal number of adjacent pages of each array, and the last device also
    // gets the remaining pages. If an array has fewer pages than there are devices, device 0 gets
    // all of them. MGPUSim distributes arrays in the same way.
    contiguous,
    one_device,
  };
  kind how = kind::round_robin;
  std::uint32_t device = 0;  // the device of all pages if `how` is one_device

  static page_placement contiguous() { return {kind::contiguous, 0}; }
  static page_placement on(std::uint32_t device) { return {kind::one_device, device}; }
  friend bool operator==(const page_placement&, const page_placement&) = default;
};

// Accepts "round-robin", "contiguous" or "gpuN". Throws usage_error for any other name, and for a
// device that does not exist.
page_placement parse_page_placement(const std::string& name, std::uint32_t devices);

// The home of page `page` of an array with `pages` pages. `before` is the number of pages of
// earlier arrays that were placed round-robin.
std::uint32_t home_of_page(const page_placement& how, std::uint64_t page, std::uint64_t pages,
                           std::uint64_t before, std::uint32_t devices);

enum class block_placement : std::uint8_t {
  // Device d has the blocks [d * n, (d + 1) * n), where n is an equal share, rounded up.
  contiguous,
  round_robin,  // one block after another goes to the devices in turn
  // Device d has the blocks [d * n, (d + 1) * n), where n is the least multiple of a device's
  // compute units that covers all blocks. If there are few blocks, the last devices get none.
  // MGPUSim has placed blocks in this way since April 2022 (distributeWGToGPUs).
  filled,
};

// Accepts "contiguous", "round-robin" or "filled". Throws usage_error for any other name.
block_placement parse_block_placement(const std::string& name);

// The blocks of a device: `count` blocks, numbered first, first + stride, and so on.
struct block_share {
  std::uint64_t first = 0;
  std::uint64_t stride = 1;
  std::uint64_t count = 0;
};
// `units` is the number of compute units of a device. Only `filled` uses it.
block_share share_of(std::uint64_t blocks, std::uint32_t devices, std::uint32_t device,
                     block_placement how, std::uint64_t units = 1);

}  // namespace interlace::kernel
