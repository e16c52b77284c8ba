// The product C = A B of two matrices, from the AMD APP SDK, with local memory. A lane computes 4 x
// 4 elements of C. A block of 8 x 8 lanes keeps a tile of A in shared memory and reads B from
// global memory.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "interlace/base/errors.hpp"
#include "workload/shared/unified_program.hpp"

namespace interlace::workload {

struct multiply_kernel {
  static constexpr std::uint32_t side = 8;  // the side of a block, in lanes
  static constexpr std::uint32_t threads = side * side;
  static constexpr std::uint32_t tile = 4 * side;  // the side of a tile, in elements
  static constexpr std::uint32_t shared_bytes = tile * tile * sizeof(float);

  struct sums {
    float4_value row[4];
  };

  unified<float4_value> a;
  unified<float4_value> b;
  unified<float4_value> c;
  std::uint32_t fours_of_a = 0;  // vectors of four elements in each row of A
  std::uint32_t fours_of_b = 0;

  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    const std::uint32_t across = fours_of_b / side;  // number of blocks across C
    const auto number = static_cast<std::uint32_t>(block.index());
    const std::uint32_t first_x = number % across * side;
    const std::uint32_t first_y = number / across * side;
    auto tile_of_a = shared<float4_value>(block, tile * side);
    auto sum = lane_state<sums>(block);
    for (std::uint32_t step = 0; step < fours_of_a / side; ++step) {
      block.each([&](auto lane) {
        const std::uint32_t x = lane.index() % side;
        const std::uint32_t y = lane.index() / side;
        for (auto r : lane.range(0U, 4U)) {
          const std::uint32_t row = (first_y + y) * 4 + r;
          const auto value = lane.load(a, std::uint64_t{row} * fours_of_a + step * side + x);
          lane.store(tile_of_a, (y * 4 + r) * side + x, value);
        }
        lane.compute(operation::integer, 16);
      });
      block.each([&](auto lane) {
        const std::uint32_t x = first_x + lane.index() % side;
        const std::uint32_t y = lane.index() / side;
        for (auto j : lane.range(0U, side)) {
          float4_value of_a[4];
          float4_value of_b[4];
          for (std::uint32_t r = 0; r < 4; ++r) {
            of_a[r] = lane.load(tile_of_a, (y * 4 + r) * side + j);
          }
          for (std::uint32_t k = 0; k < 4; ++k) {
            const std::uint32_t row = (step * side + j) * 4 + k;
            of_b[k] = lane.load(b, std::uint64_t{row} * fours_of_b + x);
          }
          for (std::uint32_t r = 0; r < 4; ++r) {
            for (std::uint32_t k = 0; k < 4; ++k) {
              for (std::uint32_t n = 0; n < 4; ++n) {
                sum[lane].row[r].x[n] += of_a[r].x[k] * of_b[k].x[n];
              }
            }
          }
          lane.compute({.fp32 = 64, .integer = 12});
        }
      });
    }
    block.each([&](auto lane) {
      const std::uint32_t x = first_x + lane.index() % side;
      const std::uint32_t y = first_y + lane.index() / side;
      for (auto r : lane.range(0U, 4U)) {
        lane.store(c, std::uint64_t{y * 4 + r} * fours_of_b + x, sum[lane].row[r]);
      }
      lane.compute(operation::integer, 12);
    });
  }
};

template <class Node>
class matrix_multiply;

struct matrix_multiply_problem {
  static constexpr const char* summary = "a product of matrices";
  static constexpr std::array arguments{"a", "b"};

  std::uint32_t rows = 0;   // rows of A and of C
  std::uint32_t inner = 0;  // columns of A, which are the rows of B
  // The columns of B and of C; rows, inner and columns are multiples of the tile's side.
  std::uint32_t columns = 0;
  std::vector<float> a;
  std::vector<float> b;

  static matrix_multiply_problem make(const array_view<float, 2>& a,
                                      const array_view<float, 2>& b) {
    if (a.extent(1) != b.extent(0)) {
      throw usage_error("the first matrix must have as many columns as the second has rows");
    }
    return {extent_of(a, 0), extent_of(a, 1), extent_of(b, 1), values_of(a), values_of(b)};
  }

  template <class Node>
  matrix_multiply<Node> on(Node& node, const unified_placement& placement) const {
    return {node, *this, placement};
  }
};

template <class Node>
class matrix_multiply {
 public:
  matrix_multiply(Node& node, const matrix_multiply_problem& data,
                  const unified_placement& placement)
      : node_(node), rows_(data.rows), blocks_(placement.blocks) {
    for (const std::uint32_t size : {data.rows, data.inner, data.columns}) {
      if (size != 0 && size % multiply_kernel::tile == 0) continue;
      throw usage_error("matrices of " + std::to_string(size) +
                        " rows or columns cannot be multiplied; give multiples of " +
                        std::to_string(multiply_kernel::tile));
    }
    if (data.a.size() != std::uint64_t{data.rows} * data.inner ||
        data.b.size() != std::uint64_t{data.inner} * data.columns) {
      throw usage_error("the matrices do not have the sizes of this multiplication");
    }
    kernel_.a = put_unified(node, in_fours(data.a.data(), data.a.size()), placement.of({}));
    kernel_.b = put_unified(node, in_fours(data.b.data(), data.b.size()), placement.of({}));
    kernel_.c = node.template allocate_unified<float4_value>(
        std::uint64_t{data.rows} * data.columns / 4,
        placement.of(kernel::page_placement::contiguous()));
    kernel_.fours_of_a = data.inner / 4;
    kernel_.fours_of_b = data.columns / 4;
  }

  void enqueue() {
    const std::uint64_t blocks =
        std::uint64_t{rows_} / multiply_kernel::tile * (kernel_.fours_of_b / multiply_kernel::side);
    node_.launch_over(kernel_, {blocks, multiply_kernel::threads, multiply_kernel::shared_bytes},
                      blocks_);
    node_.exchange();
  }
  std::vector<float> result() const { return from_fours(node_.download(kernel_.c)); }

 private:
  Node& node_;
  std::uint32_t rows_;
  kernel::block_placement blocks_;
  multiply_kernel kernel_;
};

}  // namespace interlace::workload
