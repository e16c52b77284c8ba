// The transpose of a square matrix, from the AMD APP SDK. A block reads a tile of 64 x 64 elements,
// four adjacent elements of a row at a time. It transposes the tile in shared memory and writes it.
// Blocks with consecutive numbers read tiles along a diagonal, which spreads the accesses over the
// channels of the memory.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "interlace/base/errors.hpp"
#include "workload/shared/unified_program.hpp"

namespace interlace::workload {

struct transpose_kernel {
  static constexpr std::uint32_t side = 16;  // the side of a block, in lanes
  static constexpr std::uint32_t threads = side * side;
  static constexpr std::uint32_t tile = 4 * side;  // the side of a tile, in elements
  static constexpr std::uint32_t shared_bytes = tile * tile * sizeof(float);

  unified<float4_value> input;
  unified<float4_value> output;
  std::uint32_t fours = 0;  // vectors of four elements in each row

  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    const std::uint32_t across = fours / side;  // number of blocks across the matrix
    const auto b = static_cast<std::uint32_t>(block.index());
    const std::uint32_t tile_y = b % across;
    const std::uint32_t tile_x = (b % across + b / across) % across;
    auto turned = shared<float4_value>(block, tile * side);
    block.each([&](auto lane) {
      const std::uint32_t x = lane.index() % side;
      const std::uint32_t y = lane.index() / side;
      for (auto r : lane.range(0U, 4U)) {
        const std::uint32_t row = (tile_y * side + y) * 4 + r;
        const auto value = lane.load(input, std::uint64_t{row} * fours + tile_x * side + x);
        lane.store(turned, (y * 4 + r) * side + x, value);
      }
      lane.compute(operation::integer, 24);
    });
    block.each([&](auto lane) {
      const std::uint32_t x = lane.index() % side;
      const std::uint32_t y = lane.index() / side;
      float4_value column[4];
      for (auto c : lane.range(0U, 4U)) column[c] = lane.load(turned, (4 * x + c) * side + y);
      for (auto r : lane.range(0U, 4U)) {
        const std::uint32_t row = (tile_x * side + y) * 4 + r;
        float4_value out;
        for (std::uint32_t c = 0; c < 4; ++c) out.x[c] = column[c].x[r];
        lane.store(output, std::uint64_t{row} * fours + tile_y * side + x, out);
      }
      lane.compute(operation::integer, 24);
    });
  }
};

template <class Node>
class matrix_transpose;

struct matrix_transpose_problem {
  static constexpr const char* summary = "a transpose of a matrix";
  static constexpr std::array arguments{"input"};

  std::uint32_t width = 0;   // side of the matrix, a multiple of the tile's side
  std::vector<float> input;  // width x width elements

  static matrix_transpose_problem make(const array_view<float, 2>& input) {
    if (input.extent(0) != input.extent(1)) throw usage_error("the matrix is not square");
    return {extent_of(input, 0), values_of(input)};
  }

  template <class Node>
  matrix_transpose<Node> on(Node& node, const unified_placement& placement) const {
    return {node, *this, placement};
  }
};

template <class Node>
class matrix_transpose {
 public:
  matrix_transpose(Node& node, const matrix_transpose_problem& data,
                   const unified_placement& placement)
      : node_(node), blocks_(placement.blocks) {
    if (data.width == 0 || data.width % transpose_kernel::tile != 0 ||
        data.input.size() != std::uint64_t{data.width} * data.width) {
      throw usage_error("a matrix of width " + std::to_string(data.width) +
                        " cannot be transposed; give a multiple of " +
                        std::to_string(transpose_kernel::tile));
    }
    const auto pages = placement.of(kernel::page_placement::contiguous());
    kernel_.input = put_unified(node, in_fours(data.input.data(), data.input.size()), pages);
    kernel_.output = node.template allocate_unified<float4_value>(data.input.size() / 4, pages);
    kernel_.fours = data.width / 4;
  }

  void enqueue() {
    const std::uint64_t across = kernel_.fours / transpose_kernel::side;
    node_.launch_over(kernel_,
                      {across * across, transpose_kernel::threads, transpose_kernel::shared_bytes},
                      blocks_);
    node_.exchange();
  }
  std::vector<float> result() const { return from_fours(node_.download(kernel_.output)); }

 private:
  Node& node_;
  kernel::block_placement blocks_;
  transpose_kernel kernel_;
};

}  // namespace interlace::workload
