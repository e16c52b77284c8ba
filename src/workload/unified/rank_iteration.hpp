// PageRank by repeated products of a matrix and a vector, from Hetero-Mark's PageRank. A block of
// 64 lanes computes one row and adds up the sums of its lanes in shared memory. After each product
// the host swaps the vectors. As in the original, there is no damping.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "interlace/base/errors.hpp"
#include "workload/shared/unified_program.hpp"

namespace interlace::workload {

struct rank_iteration_kernel {
  static constexpr std::uint32_t threads = 64;
  static constexpr std::uint32_t shared_bytes = threads * sizeof(float);

  unified<float> values;
  unified<std::uint32_t> columns;
  unified<std::uint32_t> offsets;
  unified<float> ranks;
  unified<float> next;

  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    const std::uint64_t row = block.index();
    auto sums = shared<float>(block, threads);
    block.each([&](auto lane) {
      lane.store(next, row, 0.0F);
      const auto begin = lane.load_index(offsets, row);
      const auto end = lane.load_index(offsets, row + 1);
      float sum = 0;
      for (auto e : lane.range(begin + lane.index(), end, threads)) {
        sum += lane.load(values, e) * lane.load(ranks, lane.load_index(columns, e));
        lane.compute({.fp32 = 1, .integer = 6});
      }
      lane.store(sums, lane.index(), sum);
      lane.compute(operation::integer, 8);
    });
    for (std::uint32_t half = threads / 2; half != 0; half /= 2) {
      block.each([&](auto lane) {
        if (lane.index() >= half) return;
        const float sum = lane.load(sums, lane.index()) + lane.load(sums, lane.index() + half);
        lane.store(sums, lane.index(), sum);
        lane.compute({.fp32 = 1, .integer = 2});
      });
    }
    block.each([&](auto lane) {
      if (lane.index() != 0) return;
      const float before = lane.load(next, row);
      lane.compute(operation::fp32, 1);
      lane.store(next, row, before + lane.load(sums, 0U));
    });
  }
};

template <class Node>
class rank_iteration;

struct rank_iteration_problem {
  static constexpr const char* summary = "a repeated product";
  static constexpr std::array arguments{"offsets", "columns", "values", "iterations"};

  std::vector<std::uint32_t> offsets;  // rows + 1 offsets
  std::vector<std::uint32_t> columns;
  std::vector<float> values;
  std::uint32_t iterations = 0;

  static rank_iteration_problem make(const array_view<std::uint32_t>& offsets,
                                     const array_view<std::uint32_t>& columns,
                                     const array_view<float>& elements, std::uint32_t iterations) {
    return {values_of(offsets), values_of(columns), values_of(elements), iterations};
  }

  template <class Node>
  rank_iteration<Node> on(Node& node, const unified_placement& placement) const {
    return {node, *this, placement};
  }
};

template <class Node>
class rank_iteration {
 public:
  rank_iteration(Node& node, const rank_iteration_problem& data, const unified_placement& placement)
      : node_(node), blocks_(placement.blocks), iterations_(data.iterations) {
    const std::size_t rows = data.offsets.empty() ? 0 : data.offsets.size() - 1;
    const bool ordered = rows != 0 && data.offsets.front() == 0 &&
                         data.offsets.back() == data.columns.size() &&
                         std::is_sorted(data.offsets.begin(), data.offsets.end());
    const bool inside = std::all_of(data.columns.begin(), data.columns.end(),
                                    [&](std::uint32_t c) { return c < rows; });
    if (!ordered || !inside || data.values.size() != data.columns.size() || data.values.empty()) {
      throw usage_error("offsets, columns and values do not describe a square matrix");
    }
    const auto pages = placement.of({});
    const std::vector<float> start(rows, 1.0F / static_cast<float>(rows));
    kernel_.ranks = put_unified(node, start, pages);
    kernel_.next = node.template allocate_unified<float>(rows, pages);
    kernel_.offsets = put_unified(node, data.offsets, pages);
    kernel_.columns = put_unified(node, data.columns, pages);
    kernel_.values = put_unified(node, data.values, pages);
  }

  void enqueue() {
    for (std::uint32_t k = 0; k < iterations_; ++k) {
      node_.launch_over(
          kernel_,
          {kernel_.ranks.size, rank_iteration_kernel::threads, rank_iteration_kernel::shared_bytes},
          blocks_);
      node_.exchange();
      std::swap(kernel_.ranks, kernel_.next);
    }
  }
  std::vector<float> result() const { return node_.download(kernel_.ranks); }

 private:
  Node& node_;
  kernel::block_placement blocks_;
  std::uint32_t iterations_;
  rank_iteration_kernel kernel_;
};

}  // namespace interlace::workload
