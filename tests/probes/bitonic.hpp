// A probe of the kernel model: a bitonic sort. Partners that are closer than the width of a warp
// exchange keys by shuffles. Partners further apart in the same block use shared memory. All other
// partners use device memory.
#pragma once

#include <cstdint>
#include <vector>

#include "interlace/kernel/region.hpp"

namespace interlace::probe {

inline constexpr std::uint32_t bitonic_tile = 512;  // number of keys in a block, one for each lane

INTERLACE_HOST_DEVICE std::uint32_t keep(std::uint32_t own, std::uint32_t other, bool smaller) {
  return (own < other) == smaller ? own : other;
}

// Makes all steps with partners in the same tile, for sizes from `first_size` to `last_size`. For
// the first size, the steps begin with the largest distance that fits in a tile.
struct bitonic_tiles {
  static constexpr std::uint32_t threads = bitonic_tile;
  static constexpr std::uint32_t shared_bytes = bitonic_tile * sizeof(std::uint32_t);

  local<std::uint32_t> keys;
  std::uint64_t first_size = 2;
  std::uint64_t last_size = bitonic_tile;

  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    auto staged = shared<std::uint32_t>(block, bitonic_tile);
    auto key = lane_state<std::uint32_t>(block);
    block.each([&](auto lane) {
      lane.compute(operation::integer, 13);
      key[lane] = lane.load(keys, lane.global_index());
    });
    for (std::uint64_t size = first_size; size <= last_size; size *= 2) {
      auto distance = static_cast<std::uint32_t>(size / 2 < threads / 2 ? size / 2 : threads / 2);
      for (; distance >= block.warp_width(); distance /= 2) {
        block.each([&](auto lane) { lane.store(staged, lane.index(), key[lane]); });
        block.each([&](auto lane) {
          const bool up = (lane.global_index() & size) == 0;
          const bool low = (lane.index() & distance) == 0;
          key[lane] = keep(key[lane], lane.load(staged, lane.index() ^ distance), low == up);
          lane.compute(operation::integer, 7);
        });
      }
      block.each_warp([&](auto warp) {
        for (std::uint32_t near = distance; near > 0; near /= 2) {
          const auto other = warp.shuffle_xor(key, near);
          warp.each([&](auto lane) {
            const bool up = (lane.global_index() & size) == 0;
            const bool low = (lane.index() & near) == 0;
            key[lane] = keep(key[lane], other[lane], low == up);
            // The first step of each size takes 19 operations. Each later step takes 5.
            lane.compute(operation::integer, near == distance ? 19 : 5);
          });
        }
      });
    }
    block.each([&](auto lane) { lane.store(keys, lane.global_index(), key[lane]); });
  }
};

// Makes one step with partners in different tiles. Each lane handles one pair.
struct bitonic_far {
  static constexpr std::uint32_t threads = 256;

  local<std::uint32_t> keys;
  std::uint64_t size = 0;
  std::uint64_t distance = 0;

  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      const std::uint64_t pair = lane.global_index();
      const std::uint64_t inside = pair & (distance - 1);
      const std::uint64_t low = ((pair - inside) << 1U) | inside;
      const std::uint32_t a = lane.load(keys, low);
      const std::uint32_t b = lane.load(keys, low + distance);
      const bool up = (low & size) == 0;
      lane.compute(operation::integer, 19);
      if ((a > b) == up) {
        lane.store(keys, low, b);
        lane.store(keys, low + distance, a);
      }
    });
  }
};

// Sorts the keys. The number of keys must be a power of two, and at least the size of a tile.
template <class Node>
void enqueue_bitonic_sort(Node& node, std::uint32_t device, const local<std::uint32_t>& keys) {
  const std::uint64_t tiles = keys.size / bitonic_tile;
  const grid tile_grid{tiles, bitonic_tiles::threads, bitonic_tiles::shared_bytes};
  node.launch(device, bitonic_tiles{keys, 2, bitonic_tile}, tile_grid);
  for (std::uint64_t size = 2 * bitonic_tile; size <= keys.size; size *= 2) {
    for (std::uint64_t distance = size / 2; distance >= bitonic_tile; distance /= 2) {
      node.launch(device, bitonic_far{keys, size, distance},
                  {keys.size / 2 / bitonic_far::threads, bitonic_far::threads, 0});
    }
    node.launch(device, bitonic_tiles{keys, size, size}, tile_grid);
  }
}

}  // namespace interlace::probe
