// Two ways in which the lanes of blocks cover the points of a plane, which is stored row by row.
// Both ways write the same points. They differ in the number of adjacent points that a warp writes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "interlace/kernel.hpp"
#include "interlace/kernel/mapping.hpp"

namespace interlace::workload {

struct plane_point {
  std::uint32_t row, column;
  std::uint32_t index;  // row * columns + column
  bool inside;          // whether the point is in the plane
};

// A block covers 256 consecutive points, so that warps write whole lines.
struct point_runs {
  static constexpr bool tiled = false;
  static constexpr std::uint32_t threads = 256;

  static std::uint64_t blocks(std::uint32_t rows, std::uint32_t columns) {
    return (std::uint64_t{rows} * columns + threads - 1) / threads;
  }
  static INTERLACE_KERNEL plane_point at(std::uint32_t block, std::uint32_t lane,
                                         std::uint32_t rows, std::uint32_t columns) {
    const std::uint32_t index = block * threads + lane;
    const std::uint32_t row = index / columns;
    return {row, index - row * columns, index, index < rows * columns};
  }
  // The points of a block.
  static std::vector<kernel::element_range> writes(std::uint64_t block, std::uint32_t rows,
                                                   std::uint32_t columns) {
    const std::uint64_t begin = block * threads;
    return {{begin, std::min(begin + threads, std::uint64_t{rows} * columns)}};
  }
};

// A block has a tile of 16 by 16 points, so that a warp writes 16 points in each of two rows. The
// public codes from which the FinePack paper takes EQWP and HIT use such blocks (Liu, b2r, eqwp.cu:
// CUDA_BLOCK_SIZE; Tartan, hit, turH.h: THREADSPERBLOCK_IN).
struct point_tiles {
  static constexpr bool tiled = true;
  static constexpr std::uint32_t side = 16;
  static constexpr std::uint32_t threads = side * side;

  static std::uint64_t blocks(std::uint32_t rows, std::uint32_t columns) {
    return std::uint64_t{across(rows)} * across(columns);
  }
  static INTERLACE_KERNEL plane_point at(std::uint32_t block, std::uint32_t lane,
                                         std::uint32_t rows, std::uint32_t columns) {
    const std::uint32_t down = block / across(columns);
    const std::uint32_t row = down * side + lane / side;
    const std::uint32_t column = (block - down * across(columns)) * side + lane % side;
    return {row, column, row * columns + column, row < rows && column < columns};
  }
  static std::vector<kernel::element_range> writes(std::uint64_t block, std::uint32_t rows,
                                                   std::uint32_t columns) {
    const std::uint64_t first_row = block / across(columns) * side;
    const std::uint64_t first = block % across(columns) * side;
    const std::uint64_t last = std::min<std::uint64_t>(first + side, columns);
    std::vector<kernel::element_range> ranges;
    for (std::uint64_t row = first_row; row < std::min<std::uint64_t>(first_row + side, rows);
         ++row) {
      ranges.push_back({row * columns + first, row * columns + last});
    }
    return ranges;
  }

 private:
  static INTERLACE_HOST_DEVICE std::uint32_t across(std::uint32_t n) {
    return (n + side - 1) / side;
  }
};

}  // namespace interlace::workload
