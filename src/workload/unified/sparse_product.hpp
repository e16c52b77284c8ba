// The product of a sparse matrix and a vector, from SHOC's spmv (compressed rows, scalar kernel). A
// lane computes one row, so the lanes of a warp read different cache lines.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "interlace/base/errors.hpp"
#include "workload/shared/unified_program.hpp"

namespace interlace::workload {

struct sparse_product_kernel {
  static constexpr std::uint32_t threads = 128;

  unified<float> values;
  unified<float> vector;
  unified<std::uint32_t> columns;
  unified<std::uint32_t> offsets;
  unified<float> product;

  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      const std::uint64_t row = lane.global_index();
      if (row >= product.size) return;
      float sum = 0;
      for (auto e : lane.range(lane.load_index(offsets, row), lane.load_index(offsets, row + 1))) {
        sum += lane.load(values, e) * lane.load(vector, lane.load_index(columns, e));
        lane.compute({.fp32 = 1, .integer = 6});
      }
      lane.store(product, row, sum);
      lane.compute(operation::integer, 10);
    });
  }
};

template <class Node>
class sparse_product;

struct sparse_product_problem {
  static constexpr const char* summary = "a sparse product";
  static constexpr std::array arguments{"offsets", "columns", "values", "vector"};

  std::vector<std::uint32_t> offsets;  // rows + 1 offsets
  std::vector<std::uint32_t> columns;
  std::vector<float> values;
  std::vector<float> vector;

  static sparse_product_problem make(const array_view<std::uint32_t>& offsets,
                                     const array_view<std::uint32_t>& columns,
                                     const array_view<float>& elements,
                                     const array_view<float>& vector) {
    return {values_of(offsets), values_of(columns), values_of(elements), values_of(vector)};
  }

  template <class Node>
  sparse_product<Node> on(Node& node, const unified_placement& placement) const {
    return {node, *this, placement};
  }
};

template <class Node>
class sparse_product {
 public:
  sparse_product(Node& node, const sparse_product_problem& data, const unified_placement& placement)
      : node_(node), blocks_(placement.blocks) {
    const bool rows = data.offsets.size() > 1 && data.offsets.front() == 0 &&
                      data.offsets.back() == data.columns.size() &&
                      std::is_sorted(data.offsets.begin(), data.offsets.end());
    const bool inside = std::all_of(data.columns.begin(), data.columns.end(),
                                    [&](std::uint32_t c) { return c < data.vector.size(); });
    if (!rows || !inside || data.values.size() != data.columns.size()) {
      throw usage_error("offsets, columns, values and vector do not fit together");
    }
    const auto pages = placement.of({});
    kernel_.values = put_unified(node, data.values, pages);
    kernel_.vector = put_unified(node, data.vector, pages);
    kernel_.columns = put_unified(node, data.columns, pages);
    kernel_.offsets = put_unified(node, data.offsets, pages);
    kernel_.product = node.template allocate_unified<float>(data.offsets.size() - 1, pages);
  }

  void enqueue() {
    const std::uint64_t blocks = (kernel_.product.size + sparse_product_kernel::threads - 1) /
                                 sparse_product_kernel::threads;
    node_.launch_over(kernel_, {blocks, sparse_product_kernel::threads, 0}, blocks_);
    node_.exchange();
  }
  std::vector<float> result() const { return node_.download(kernel_.product); }

 private:
  Node& node_;
  kernel::block_placement blocks_;
  sparse_product_kernel kernel_;
};

}  // namespace interlace::workload
