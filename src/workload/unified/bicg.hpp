// q = A p and s = A^T r, from PolyBench's bicg, which is a part of the biconjugate gradient method.
// The two kernels are the kernels of atax, with different vectors.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "interlace/base/errors.hpp"
#include "workload/shared/unified_program.hpp"
#include "workload/unified/atax.hpp"

namespace interlace::workload {

template <class Node>
class bicg;

struct bicg_problem {
  static constexpr const char* summary = "A p and A^T r";
  static constexpr std::array arguments{"matrix", "p", "r"};

  std::uint32_t rows = 0;
  std::uint32_t columns = 0;
  std::vector<float> matrix;  // stored row by row
  std::vector<float> p;       // one element for each column
  std::vector<float> r;       // one element for each row

  static bicg_problem make(const array_view<float, 2>& matrix, const array_view<float>& p,
                           const array_view<float>& r) {
    return {extent_of(matrix, 0), extent_of(matrix, 1), values_of(matrix), values_of(p),
            values_of(r)};
  }

  template <class Node>
  bicg<Node> on(Node& node, const unified_placement& placement) const {
    return {node, *this, placement};
  }
};

template <class Node>
class bicg {
 public:
  bicg(Node& node, const bicg_problem& data, const unified_placement& placement)
      : node_(node), blocks_(placement.blocks) {
    if (data.rows == 0 || data.columns == 0 || data.p.size() != data.columns ||
        data.r.size() != data.rows ||
        data.matrix.size() != std::uint64_t{data.rows} * data.columns) {
      throw usage_error(
          "bicg needs a matrix and vectors with an element for each of its columns and rows");
    }
    const auto pages = placement.of({});
    const auto matrix = put_unified(node, data.matrix, pages);
    const auto r = put_unified(node, data.r, pages);
    const auto s = put_unified(node, std::vector<float>(data.columns), pages);
    const auto p = put_unified(node, data.p, pages);
    const auto q = put_unified(node, std::vector<float>(data.rows), pages);
    first_ = {matrix, p, q, data.columns, 1};
    second_ = {matrix, r, s, 1, data.columns};
  }

  void enqueue() {
    for (const atax_kernel& k : {first_, second_}) {
      const std::uint64_t blocks =
          (k.product.size + atax_kernel::threads - 1) / atax_kernel::threads;
      node_.launch_over(k, {blocks, atax_kernel::threads, 0}, blocks_);
      node_.exchange();
    }
  }
  // The vector q, followed by s.
  std::vector<float> result() const {
    std::vector<float> both = node_.download(first_.product);
    const std::vector<float> s = node_.download(second_.product);
    both.insert(both.end(), s.begin(), s.end());
    return both;
  }

 private:
  Node& node_;
  kernel::block_placement blocks_;
  atax_kernel first_;
  atax_kernel second_;
};

}  // namespace interlace::workload
