// What several workloads do with the parts that devices own.
#pragma once

#include <cstdint>
#include <vector>

#include "interlace/kernel.hpp"

namespace interlace::workload {

// A device's array of these values.
template <class Node, class T>
local<T> put(Node& node, std::uint32_t device, const std::vector<T>& values) {
  auto array = node.template allocate<T>(device, values.size());
  node.upload(array, values);
  return array;
}

// Shared memory that add_sums takes for so many sums.
constexpr std::uint32_t sum_bytes(std::uint32_t sums) { return sums * 32 * sizeof(float); }

// Adds all lanes' states to totals[0], totals[1], ... in their order, with one atomic a block and
// total; only the first `used` of them.
template <class Block, class... State>
INTERLACE_KERNEL void add_sums(Block& block, const reduced<double>& totals, std::uint32_t used,
                               const State&... states) {
  auto warps = shared<float>(block, sizeof...(State) * 32);
  block.each_warp([&](auto warp) {
    std::uint32_t next = 0;
    const float sums[] = {(next++ < used ? warp.sum(states) : 0.0F)...};
    warp.each([&](auto lane) {
      if (lane.in_warp() != 0) return;
      for (std::uint32_t k = 0; k < sizeof...(State); ++k) {
        if (k < used) lane.store(warps, 32 * k + warp.index(), sums[k]);
      }
    });
  });
  block.each([&](auto lane) {
    if (lane.index() >= used) return;
    float total = 0;
    for (auto w : lane.range(0U, block.threads() / block.warp_width())) {
      total += lane.load(warps, 32 * lane.index() + w);
    }
    lane.compute({.fp32 = block.threads() / block.warp_width(), .integer = 20});
    if (total != 0) lane.reduce(totals, lane.index(), static_cast<double>(total));
  });
}

}  // namespace interlace::workload
