// The update of an embedding table. Each epoch adds a batch of gradients to rows of the table. A
// gradient has as many numbers as a row. A row can occur several times in a batch, because some
// rows are looked up more often than others.
//
// The table is a partitioned array of numbers. Each lane adds one number, and consecutive lanes add
// the consecutive numbers of a row. A lane reads its number (4 B, coalesced) and the index of its
// row (4 B, the same for all lanes of a row). It then makes one addition.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "interlace/base/array_view.hpp"
#include "interlace/base/errors.hpp"
#include "interlace/kernel/region.hpp"
#include "interlace/workload/problem.hpp"
#include "workload/shared/dealt_items.hpp"

namespace interlace::workload {

struct embedding_update {
  static constexpr std::uint32_t threads = 256;
  static constexpr std::uint32_t numbers_a_lane = 4;

  partitioned<float, combine::add> table;
  local<const std::uint32_t> rows;  // the row to which each gradient is added
  local<const float> gradients;     // [gradient][width]
  std::uint32_t width_bits = 0;     // log2 of the width of a row

  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      for (auto k : lane.range(lane.global_index(), gradients.size, lane.global_count())) {
        const auto row = lane.load_index(rows, k >> width_bits);
        const std::uint64_t column = k & ((std::uint64_t{1} << width_bits) - 1);
        const std::uint64_t first = static_cast<std::uint64_t>(row) << width_bits;
        lane.update(table, first + column, lane.load(gradients, k));
        lane.compute(operation::integer, 12 + 3 * table.devices);
      }
    });
  }
};

template <class Node>
class embedding {
 public:
  embedding(Node& node, const array_view<std::uint32_t>& rows, const array_view<float>& gradients,
            std::uint32_t width_bits, kernel::region_options options)
      : node_(node),
        width_bits_(width_bits),
        boundaries_(options.boundaries),
        table_(node.template create_partition<float, combine::add>(
            with_queues(std::move(options), gradients.size()))),
        rows_(deal(node, rows)),
        gradients_(deal(node, gradients, std::uint64_t{1} << width_bits)) {
    reset();
  }

  void reset() {
    for (std::uint32_t d = 0; d < node_.devices(); ++d) {
      node_.set_part(table_, d, std::vector<float>(boundaries_[d + 1] - boundaries_[d], 0.0F));
    }
  }

  void enqueue_iteration(bool track_residual) {
    if (track_residual) {
      throw usage_error(
          "embedding adds a fixed number of batches; give iterations, not a tolerance");
    }
    for (std::uint32_t d = 0; d < node_.devices(); ++d) {
      const embedding_update k{node_.view(table_, d), rows_[d], gradients_[d], width_bits_};
      const std::uint64_t each =
          embedding_update::threads * items_a_lane(embedding_update::numbers_a_lane, k.table);
      node_.launch(d, k, {(gradients_[d].size + each - 1) / each, embedding_update::threads},
                   table_);
    }
    node_.exchange(table_);
  }

  // The rows that the device owns.
  std::vector<float> result(std::uint32_t device) const {
    return values_of_part(node_.part(table_, device), boundaries_[device], boundaries_.back());
  }

  double residual() const { return 0; }

 private:
  Node& node_;
  std::uint32_t width_bits_;
  std::vector<std::uint64_t> boundaries_;
  kernel::partition<float, combine::add> table_;
  std::vector<local<std::uint32_t>> rows_;
  std::vector<local<float>> gradients_;
};

// NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): views are always given
struct embedding_problem {
  static constexpr const char* summary = "gradients added to an embedding table";
  static constexpr std::array arguments{"table_rows", "rows", "gradients"};
  using launching_kernels = kernel_list<>;

  std::uint64_t table_rows = 0;
  array_view<std::uint32_t> rows;
  array_view<float, 2> gradients;  // [gradient][width]
  std::uint32_t width_bits = 0;

  static embedding_problem make(std::uint64_t table_rows, const array_view<std::uint32_t>& rows,
                                const array_view<float, 2>& gradients) {
    if (rows.size() == 0 || gradients.extent(0) != rows.size()) {
      throw usage_error("there must be a gradient for each row of the batch");
    }
    const std::size_t width = gradients.extent(1);
    if (width == 0 || (width & (width - 1)) != 0) {
      throw usage_error("a row cannot have " + std::to_string(width) +
                        " numbers; give a power of two");
    }
    if (const auto* found = std::find_if(rows.begin(), rows.end(),
                                         [&](std::uint32_t row) { return row >= table_rows; });
        found != rows.end()) {
      throw usage_error("gradient " + std::to_string(found - rows.begin()) + " is for row " +
                        std::to_string(*found) + "; the table has " + std::to_string(table_rows) +
                        " rows");
    }
    std::uint32_t bits = 0;
    while (std::size_t{1} << bits != width) ++bits;
    return {table_rows, rows, gradients, bits};
  }

  std::uint64_t elements() const { return table_rows << width_bits; }

  template <class Node>
  embedding<Node> on(Node& node, kernel::region_options options) const {
    const array_view<float> numbers(gradients.data(), {gradients.size()});
    return {node, rows, numbers, width_bits, std::move(options)};
  }
};

}  // namespace interlace::workload
