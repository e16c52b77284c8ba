// Functions for the parts that devices own, used by several workloads.
#pragma once

#include <cstdint>
#include <type_traits>
#include <vector>

#include "interlace/kernel.hpp"

namespace interlace::workload {

// Copies the values to an array of a device.
template <class Node, class T>
local<T> put(Node& node, std::uint32_t device, const std::vector<T>& values) {
  auto array = node.template allocate<T>(device, values.size());
  node.upload(array, values);
  return array;
}

// The number of threads that a device holds at a time, or 0 if the size of blocks must not depend
// on the device. CPUs run blocks one after another, and a simulated node may want the same blocks
// on every machine.
template <class Node>
std::uint64_t threads_at_once(const Node& node, std::uint32_t device) {
  if constexpr (requires { node.threads_at_once(device); }) {
    return node.threads_at_once(device);
  } else {
    return 0;
  }
}

// The most partial sums that add_sums keeps for a block. Each warp has one partial sum.
inline constexpr std::uint32_t most_warps = 32;

// The shared memory that add_sums needs for `sums` sums.
template <class T = float>
constexpr std::uint32_t sum_bytes(std::uint32_t sums) {
  return sums * most_warps * sizeof(T);
}

template <class T>
INTERLACE_HOST_DEVICE constexpr operation addition_of() {
  if constexpr (std::is_integral_v<T>) return operation::integer;
  return sizeof(T) == sizeof(double) ? operation::fp64 : operation::fp32;
}

// Adds the states of all lanes to totals: the first state to totals[0], the next to totals[1], and
// so on. Each block makes one atomic addition for each total. Only the first `used` states are
// added; `used` must be at least 1.
template <class T = float, class Block, class... State>
INTERLACE_KERNEL void add_sums(Block& block, const reduced<double>& totals, std::uint32_t used,
                               const State&... states) {
  auto warps = shared<T>(block, sizeof...(State) * most_warps);
  block.each_warp([&](auto warp) {
    std::uint32_t next = 0;
    const T sums[] = {(next++ < used ? warp.sum(states) : T{})...};
    warp.each([&](auto lane) {
      if (lane.in_warp() != 0) return;
      for (std::uint32_t k = 0; k < sizeof...(State); ++k) {
        if (k < used) lane.store(warps, most_warps * k + warp.index(), sums[k]);
      }
    });
  });
  block.each([&](auto lane) {
    if (lane.index() >= used) return;
    T total = 0;
    for (auto w : lane.range(0U, block.threads() / block.warp_width())) {
      total += lane.load(warps, most_warps * lane.index() + w);
    }
    lane.compute(addition_of<T>(), block.threads() / block.warp_width());
    lane.compute(operation::integer, 20);
    if (total != 0) lane.reduce(totals, lane.index(), static_cast<double>(total));
  });
}

}  // namespace interlace::workload
