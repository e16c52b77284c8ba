// A probe of the kernel model: one step of a power iteration. It computes y = A x and the scalar
// product of x and y. A warp adds up a row, and each block adds to the scalar once.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "interlace/kernel/region.hpp"

namespace interlace::probe {

// A square matrix, row by row, in host memory.
struct sparse_matrix {
  std::vector<std::uint32_t> offsets{0};  // rows + 1 offsets
  std::vector<std::uint32_t> columns;
  std::vector<float> values;
  std::uint64_t rows() const { return offsets.size() - 1; }
};

struct spmv_rows {
  static constexpr std::uint32_t threads = 256;
  static constexpr std::uint32_t shared_bytes = threads * sizeof(double) / 32;

  local<const std::uint32_t> offsets;  // offsets of this device's rows, from 0
  local<const std::uint32_t> columns;
  local<const float> values;
  replicated<float> x;  // the back of this region is y
  reduced<double> product;
  std::uint64_t first_row = 0;
  std::uint64_t rows = 0;

  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    auto products = shared<double>(block, threads / block.warp_width());
    auto part = lane_state<float>(block);
    block.each_warp([&](auto warp) {
      const std::uint64_t row = block.index() * warp.count() + warp.index();
      const bool inside = row < rows;
      const std::uint32_t begin = inside ? warp.load(offsets, row) : 0;
      const std::uint32_t end = inside ? warp.load(offsets, row + 1) : 0;
      warp.each([&](auto lane) {
        float sum = 0;
        for (auto e : lane.range(begin + lane.in_warp(), end, block.warp_width())) {
          sum += lane.load(values, e) * lane.load(x, lane.load_index(columns, e));
        }
        part[lane] = sum;
        const std::uint32_t mine =
            (end - begin + block.warp_width() - 1 - lane.in_warp()) / block.warp_width();
        lane.compute(operation::fp32, mine);
        lane.compute(operation::integer, 22 + 4 * mine);
      });
      const float y = warp.sum(part);
      warp.each([&](auto lane) {
        if (lane.in_warp() != 0) return;
        double xy = 0;
        if (inside) {
          lane.store(x, first_row + row, y);
          xy = static_cast<double>(y) * static_cast<double>(lane.load(x, first_row + row));
        }
        lane.store(products, warp.index(), xy);
        lane.compute(operation::fp64, 1);
        lane.compute(operation::special, 2);
        lane.compute(operation::integer, 10);
      });
    });
    block.each([&](auto lane) {
      if (lane.index() != 0) return;
      double sum = 0;
      for (auto w : lane.range(0U, threads / block.warp_width())) sum += lane.load(products, w);
      lane.compute(operation::fp64, threads / block.warp_width());
      lane.compute(operation::integer, 20);
      lane.reduce(product, 0, sum);
    });
  }
};

template <class Node>
class spmv {
 public:
  spmv(Node& node, const sparse_matrix& a, kernel::mechanism how, std::uint32_t copies = 16)
      : node_(node), rows_(a.rows()) {
    kernel::region_options options;
    options.mechanism = how;
    options.split_ranges = 4;
    for (std::uint32_t d = 0; d <= node.devices(); ++d) options.boundaries.push_back(first(d));
    x_ = node.template create_region<float>(std::move(options));
    product_ = node.template create_reduction<double, combine::add>(1, copies);
    for (std::uint32_t d = 0; d < node.devices(); ++d) {
      const auto begin = static_cast<std::ptrdiff_t>(first(d));
      const auto end = static_cast<std::ptrdiff_t>(first(d + 1));
      std::vector<std::uint32_t> offsets(a.offsets.begin() + begin, a.offsets.begin() + end + 1);
      const auto edge = static_cast<std::ptrdiff_t>(offsets.front());
      const auto last_edge = static_cast<std::ptrdiff_t>(offsets.back());
      for (std::uint32_t& o : offsets) o -= static_cast<std::uint32_t>(edge);
      parts_.push_back(
          {put(d, offsets),
           put(d,
               std::vector<std::uint32_t>(a.columns.begin() + edge, a.columns.begin() + last_edge)),
           put(d, std::vector<float>(a.values.begin() + edge, a.values.begin() + last_edge))});
    }
  }

  void set(const std::vector<float>& x) { node_.set_front(x_, x); }

  void enqueue_step() {
    for (std::uint32_t d = 0; d < node_.devices(); ++d) {
      const std::uint64_t rows = first(d + 1) - first(d);
      const std::uint64_t per_block = spmv_rows::threads / 32;
      node_.launch(
          d,
          spmv_rows{parts_[d].offsets, parts_[d].columns, parts_[d].values, node_.view(x_, d),
                    node_.view(product_, d), first(d), rows},
          {(rows + per_block - 1) / per_block, spmv_rows::threads, spmv_rows::shared_bytes}, x_,
          kernel::block_mapping::contiguous(first(d), per_block, first(d + 1)));
    }
    node_.exchange(x_, product_);
  }

  std::vector<float> y(std::uint32_t device) const { return node_.front(x_, device); }
  double product(std::uint32_t device) const { return node_.front(product_, device)[0]; }

 private:
  struct part {
    local<std::uint32_t> offsets, columns;
    local<float> values;
  };
  template <class T>
  local<T> put(std::uint32_t device, const std::vector<T>& values) {
    auto array = node_.template allocate<T>(device, values.size());
    node_.upload(array, values);
    return array;
  }
  std::uint64_t first(std::uint32_t device) const { return rows_ * device / node_.devices(); }

  Node& node_;
  std::uint64_t rows_;
  kernel::region<float> x_;
  kernel::reduction<double, combine::add> product_;
  std::vector<part> parts_;
};

struct spmv_result {
  std::vector<double> y;
  double product = 0;
};
inline spmv_result spmv_reference(const sparse_matrix& a, const std::vector<float>& x) {
  spmv_result result;
  for (std::uint64_t row = 0; row < a.rows(); ++row) {
    double sum = 0;
    for (std::uint32_t e = a.offsets[row]; e < a.offsets[row + 1]; ++e) {
      sum += static_cast<double>(a.values[e]) * static_cast<double>(x[a.columns[e]]);
    }
    result.y.push_back(sum);
    result.product += sum * static_cast<double>(x[row]);
  }
  return result;
}

// Makes a matrix whose rows have 0 to `most` entries. Every seventh row has many more.
inline sparse_matrix random_matrix(std::uint32_t rows, std::uint32_t most, std::uint64_t seed) {
  sparse_matrix a;
  std::uint64_t state = seed;
  const auto next = [&] {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<std::uint32_t>(state >> 33U);
  };
  for (std::uint32_t row = 0; row < rows; ++row) {
    const std::uint32_t entries = next() % (row % 7 == 0 ? 8 * most + 1 : most + 1);
    for (std::uint32_t e = 0; e < entries; ++e) {
      a.columns.push_back(next() % rows);
      a.values.push_back(static_cast<float>(next() % 2000) / 1000.0F - 1.0F);
    }
    a.offsets.push_back(static_cast<std::uint32_t>(a.columns.size()));
  }
  return a;
}

}  // namespace interlace::probe
