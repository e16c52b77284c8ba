// A stencil of nine points in two dimensions, from SHOC's stencil2d. A block of 64 lanes keeps a
// tile of 16 rows and 64 columns, with the tile's halo, in shared memory. After each launch the
// host swaps the input and output grids.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "interlace/base/errors.hpp"
#include "workload/shared/unified_program.hpp"

namespace interlace::workload {

struct stencil_weights {
  float centre = 0;
  float beside = 0;  // weight of the four neighbours in a row or column
  float across = 0;  // weight of the four diagonal neighbours
};

struct stencil_2d_kernel {
  static constexpr std::uint32_t threads = 64;
  static constexpr std::uint32_t rows = 16;  // number of rows of a tile
  static constexpr std::uint32_t pitch = threads + 2;
  static constexpr std::uint32_t shared_bytes = (rows + 2) * pitch * sizeof(float);

  unified<float> from;
  unified<float> to;
  // The number of tiles in a column of tiles. Blocks are numbered down the first column of tiles,
  // then down the next column.
  std::uint32_t tiles_down = 0;
  std::uint32_t padded = 0;  // elements from one row to the next
  stencil_weights weights;

  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    const auto number = static_cast<std::uint32_t>(block.index());
    // The position of the tile's first element, including the halo.
    const std::uint32_t row = number % tiles_down * rows + 1;
    const std::uint32_t column = number / tiles_down * threads + 1;
    auto tile = shared<float>(block, (rows + 2) * pitch);
    const std::uint64_t above = std::uint64_t{row - 1} * padded + column;
    block.each([&](auto lane) {
      const std::uint32_t x = lane.index();
      for (auto r : lane.range(0U, rows + 2)) {
        lane.store(tile, r * pitch + x + 1, lane.load(from, above + std::uint64_t{r} * padded + x));
      }
      lane.compute(operation::integer, 4 * (rows + 2));
      if (x == 0) {
        for (auto r : lane.range(0U, rows + 2)) {
          lane.store(tile, r * pitch, lane.load(from, above + std::uint64_t{r} * padded - 1));
        }
        lane.compute(operation::integer, 4 * (rows + 2));
      } else if (x == threads - 1) {
        for (auto r : lane.range(0U, rows + 2)) {
          lane.store(tile, r * pitch + threads + 1,
                     lane.load(from, above + std::uint64_t{r} * padded + threads));
        }
        lane.compute(operation::integer, 4 * (rows + 2));
      }
    });
    block.each([&](auto lane) {
      const std::uint32_t x = lane.index() + 1;
      for (auto r : lane.range(0U, rows)) {
        const std::uint32_t at = (r + 1) * pitch + x;
        const float centre = lane.load(tile, at);
        const float beside = lane.load(tile, at - pitch) + lane.load(tile, at + pitch) +
                             lane.load(tile, at + 1) + lane.load(tile, at - 1);
        const float across = lane.load(tile, at - pitch + 1) + lane.load(tile, at + pitch + 1) +
                             lane.load(tile, at - pitch - 1) + lane.load(tile, at + pitch - 1);
        lane.compute({.fp32 = 9, .integer = 4});
        lane.store(to, above + std::uint64_t{r + 1} * padded + lane.index(),
                   weights.centre * centre + weights.beside * beside + weights.across * across);
      }
    });
  }
};

template <class Node>
class stencil_2d;

struct stencil_2d_problem {
  static constexpr const char* summary = "a repeated stencil";
  static constexpr std::array arguments{"grid", "weights", "iterations"};

  // The number of rows, without the halo of one point on each side; a multiple of 16.
  std::uint32_t rows = 0;
  std::uint32_t columns = 0;  // number of columns, without the halo; a multiple of 64
  std::uint32_t iterations = 0;
  stencil_weights weights;
  std::vector<float> grid;  // (rows + 2) x (columns + 2); the halo is fixed

  static stencil_2d_problem make(const array_view<float, 2>& grid, const array_view<float>& weights,
                                 std::uint32_t iterations) {
    if (grid.extent(0) < 2 || grid.extent(1) < 2 || weights.size() != 3) {
      throw usage_error("a stencil needs a grid with a halo, and three weights");
    }
    const float* w = weights.data();
    return {extent_of(grid, 0) - 2,
            extent_of(grid, 1) - 2,
            iterations,
            {w[0], w[1], w[2]},
            values_of(grid)};
  }

  template <class Node>
  stencil_2d<Node> on(Node& node, const unified_placement& placement) const {
    return {node, *this, placement};
  }
};

template <class Node>
class stencil_2d {
 public:
  stencil_2d(Node& node, const stencil_2d_problem& data, const unified_placement& placement)
      : node_(node),
        blocks_(placement.blocks),
        rows_(data.rows),
        columns_(data.columns),
        iterations_(data.iterations) {
    if (data.rows == 0 || data.rows % stencil_2d_kernel::rows != 0 || data.columns == 0 ||
        data.columns % stencil_2d_kernel::threads != 0 ||
        data.grid.size() != std::uint64_t{data.rows + 2} * (data.columns + 2)) {
      throw usage_error("a stencil needs a multiple of " + std::to_string(stencil_2d_kernel::rows) +
                        " rows and of " + std::to_string(stencil_2d_kernel::threads) +
                        " columns, with a halo of one point around them; it was given " +
                        std::to_string(data.rows) + " x " + std::to_string(data.columns));
    }
    kernel_.padded = (data.columns + 2 + alignment - 1) / alignment * alignment;
    kernel_.tiles_down = data.rows / stencil_2d_kernel::rows;
    kernel_.weights = data.weights;
    std::vector<float> grid(std::uint64_t{data.rows + 2} * kernel_.padded);
    for (std::size_t r = 0; r < data.rows + 2; ++r) {
      for (std::size_t c = 0; c < data.columns + 2; ++c) {
        grid[r * kernel_.padded + c] = data.grid[r * (data.columns + 2) + c];
      }
    }
    const auto pages = placement.of({});
    kernel_.from = put_unified(node, grid, pages);
    kernel_.to = put_unified(node, grid, pages);
  }

  void enqueue() {
    const std::uint64_t blocks =
        std::uint64_t{kernel_.tiles_down} * (columns_ / stencil_2d_kernel::threads);
    for (std::uint32_t k = 0; k < iterations_; ++k) {
      node_.launch_over(
          kernel_, {blocks, stencil_2d_kernel::threads, stencil_2d_kernel::shared_bytes}, blocks_);
      node_.exchange();
      std::swap(kernel_.from, kernel_.to);
    }
  }
  // The values of the grid with its halo, without the padding of rows.
  std::vector<float> result() const {
    const std::vector<float> grid = node_.download(kernel_.from);
    std::vector<float> values;
    for (std::size_t r = 0; r < rows_ + 2; ++r) {
      const auto row = grid.begin() + static_cast<std::ptrdiff_t>(r * kernel_.padded);
      values.insert(values.end(), row, row + columns_ + 2);
    }
    return values;
  }

 private:
  static constexpr std::uint32_t alignment = 16;  // alignment of rows, in elements

  Node& node_;
  kernel::block_placement blocks_;
  std::uint32_t rows_;
  std::uint32_t columns_;
  std::uint32_t iterations_;
  stencil_2d_kernel kernel_;
};

}  // namespace interlace::workload
