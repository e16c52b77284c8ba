// Jacobi iteration for Laplace's equation on a grid whose rows are cut over devices, as the
// MPI program of NVIDIA's multi-GPU programming models does it: rows are periodic, the first and
// the last column stay as they are, and a device keeps the row next to its own on either side.
//
//   next(y, x) = (a(y, x - 1) + a(y, x + 1) + a(y - 1, x) + a(y + 1, x)) / 4
//
// A block has 32 x 32 lanes, as there; the sum of the squares of the changes is taken at once.
// Memory bounds it: a point is read once and written once, 8 bytes, for 6 operations.
#pragma once

#include <cstdint>

#include "interlace/kernel.hpp"
#include "workload/parts.hpp"

namespace interlace::workload {

struct halo_jacobi_step {
  static constexpr std::uint32_t tile = 32;
  static constexpr std::uint32_t threads = tile * tile;
  static constexpr std::uint32_t shared_bytes = sum_bytes(1);

  local<const float> a;  // [rows + 2][columns]
  local<float> next;     // the same
  reduced<double> norm;
  std::uint32_t columns = 0;
  std::uint32_t rows = 0;  // of this device

  static std::uint64_t blocks(std::uint64_t columns, std::uint64_t rows) {
    return (columns + tile - 1) / tile * ((rows + tile - 1) / tile);
  }

  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    const std::uint32_t across = (columns + tile - 1) / tile;
    const auto index = static_cast<std::uint32_t>(block.index());
    auto change = lane_state<float>(block);
    block.each([&](auto lane) {
      const std::uint32_t x = index % across * tile + lane.index() % tile;
      const std::uint32_t y = index / across * tile + lane.index() / tile + 1;
      lane.compute(operation::integer, 12);
      if (x >= columns || y > rows) return;
      const std::uint64_t i = std::uint64_t{y} * columns + x;
      const float own = lane.load(a, i);
      if (x == 0 || x == columns - 1) {
        lane.store(next, i, own);
        return;
      }
      const float sides = lane.load(a, i + 1) + lane.load(a, i - 1);
      const float made = 0.25F * (sides + lane.load(a, i + columns) + lane.load(a, i - columns));
      lane.store(next, i, made);
      const float difference = made - own;
      change[lane] = difference * difference;
      lane.compute({.fp32 = 6, .integer = 10});
    });
    add_sums(block, norm, 1, change);
  }
};

}  // namespace interlace::workload
