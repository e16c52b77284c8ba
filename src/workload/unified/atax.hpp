// y = A^T (A x), from PolyBench's atax. In the first kernel a lane has a row of A, so each load of
// a warp touches as many cache lines as the warp has lanes. In the second kernel a lane has a
// column, so the lanes of a warp touch adjacent elements. As in the original, the sum is stored
// after every step of the loop.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "interlace/base/errors.hpp"
#include "workload/shared/unified_program.hpp"

namespace interlace::workload {

// Adds the sum over j of A(i, j) vector(j) to product(i). A(i, j) is element i * row_step + j *
// column_step of `matrix`.
struct atax_kernel {
  static constexpr std::uint32_t threads = 256;

  unified<float> matrix;
  unified<float> vector;
  unified<float> product;
  std::uint32_t row_step = 0;
  std::uint32_t column_step = 0;

  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      const auto i = static_cast<std::uint32_t>(lane.global_index());
      if (i >= product.size) return;
      float sum = lane.load(product, i);
      for (auto j : lane.range(0U, static_cast<std::uint32_t>(vector.size))) {
        const std::uint64_t at =
            std::uint64_t{i} * row_step + static_cast<std::uint64_t>(j) * column_step;
        sum += lane.load(matrix, at) * lane.load(vector, j);
        lane.compute({.fp32 = 1, .integer = 4});
        lane.store(product, i, sum);
      }
    });
  }
};

template <class Node>
class atax;

struct atax_problem {
  static constexpr const char* summary = "A^T (A x)";
  static constexpr std::array arguments{"matrix", "x"};

  std::uint32_t rows = 0;
  std::uint32_t columns = 0;
  std::vector<float> matrix;  // stored row by row
  std::vector<float> x;       // one element for each column

  static atax_problem make(const array_view<float, 2>& matrix, const array_view<float>& x) {
    return {extent_of(matrix, 0), extent_of(matrix, 1), values_of(matrix), values_of(x)};
  }

  template <class Node>
  atax<Node> on(Node& node, const unified_placement& placement) const {
    return {node, *this, placement};
  }
};

template <class Node>
class atax {
 public:
  atax(Node& node, const atax_problem& data, const unified_placement& placement)
      : node_(node), blocks_(placement.blocks) {
    if (data.rows == 0 || data.columns == 0 || data.x.size() != data.columns ||
        data.matrix.size() != std::uint64_t{data.rows} * data.columns) {
      throw usage_error("atax needs a matrix and a vector with an element for each of its columns");
    }
    const auto pages = placement.of({});
    const auto matrix = put_unified(node, data.matrix, pages);
    const auto x = put_unified(node, data.x, pages);
    const auto y = put_unified(node, std::vector<float>(data.columns), pages);
    const auto between = put_unified(node, std::vector<float>(data.rows), pages);
    first_ = {matrix, x, between, data.columns, 1};
    second_ = {matrix, between, y, 1, data.columns};
  }

  void enqueue() {
    for (const atax_kernel& k : {first_, second_}) {
      const std::uint64_t blocks =
          (k.product.size + atax_kernel::threads - 1) / atax_kernel::threads;
      node_.launch_over(k, {blocks, atax_kernel::threads, 0}, blocks_);
      node_.exchange();
    }
  }
  std::vector<float> result() const { return node_.download(second_.product); }

 private:
  Node& node_;
  kernel::block_placement blocks_;
  atax_kernel first_;
  atax_kernel second_;
};

}  // namespace interlace::workload
