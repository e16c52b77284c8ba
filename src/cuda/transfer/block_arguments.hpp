// The arguments of the kernels in block_kernels.ptx. The PTX file uses the same offsets.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace interlace::cuda {

// The number of bytes for lists in the arguments. On an H200, a launch with 4,080 bytes of
// arguments takes 1.4 us longer than a launch with 80 bytes. A kernel that reads its lists from the
// host's memory takes 2 us longer than a kernel with lists in its arguments.
inline constexpr std::size_t block_arguments_room = 944;

// Address i of a side is base + number[i] * scale. Without a list, the numbers are 0, 1, 2 and so
// on.
// NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): a launch writes the lists that it has
struct block_arguments {
  static constexpr std::uint32_t wide_to = 1, wide_from = 2, lists_inside = 4;

  std::uint64_t to_base = 0;
  std::uint64_t from_base = 0;
  std::uint64_t to_scale = 1;
  std::uint64_t from_scale = 1;
  // The addresses at which the lists begin. 0 means that the side has no list. With `lists_inside`,
  // the values are offsets from the beginning of this structure.
  std::uint64_t to_list = 0;
  std::uint64_t from_list = 0;
  std::uint64_t size_list = 0;  // address of a list of 8-byte numbers
  std::uint64_t bytes = 0;      // bytes of each block, if there is no list of sizes
  std::uint32_t count = 0;
  std::uint32_t run = 1;  // number of addresses that a thread block reads at once
  std::uint32_t bits = 0;
  std::uint32_t unused = 0;
  std::array<std::byte, block_arguments_room> lists = {};
};
static_assert(sizeof(block_arguments) == 1024 && offsetof(block_arguments, lists) == 80);

}  // namespace interlace::cuda
