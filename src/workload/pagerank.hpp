// PageRank (Page, Brin, Motwani and Winograd, 1999). The pull form takes one epoch for an
// iteration. There is also a push form.
//
//   rank'(v) = (1 - d) / n + d * (sum over edges u -> v of rank(u) / out_degree(u) + dangling / n)
//
// The region holds rank / max(out_degree, 1). Edges need exactly this value, so each edge takes one
// gather. The rank itself is the value times max(out_degree, 1). `dangling` is the sum of the ranks
// of all vertices without an out-edge. A reduction in the previous epoch computes this sum.
//
// The sums over the in-edges of a vertex are computed by edge_units.hpp or row_warps.hpp. Blocks
// that share a row add their results to one word. The word holds the sum in fixed point and the
// number of blocks that have added to it.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "interlace/base/array_view.hpp"
#include "interlace/base/errors.hpp"
#include "interlace/kernel/region.hpp"
#include "interlace/workload/problem.hpp"
#include "workload/shared/chosen.hpp"
#include "workload/shared/edge_units.hpp"
#include "workload/shared/parts.hpp"
#include "workload/shared/push_edges.hpp"
#include "workload/shared/readers.hpp"
#include "workload/shared/row_kernel.hpp"
#include "workload/shared/row_warps.hpp"

namespace interlace::workload {

// A sum of contributions, which is at most 1.
struct rank_sum {
  using value = float;
  static INTERLACE_KERNEL float identity() { return 0; }
  static INTERLACE_KERNEL float combine(float a, float b) { return a + b; }
  template <class Warp, class State>
  static INTERLACE_KERNEL float over_warp(const Warp& warp, const State& state) {
    return warp.sum(state);
  }
  // The operations of rank_update.
  static INTERLACE_KERNEL operations once() { return {.fp64 = 10, .special = 3}; }
  static INTERLACE_KERNEL operations gathers(std::uint32_t n) { return {.integer = 4 * n}; }
  static INTERLACE_KERNEL operations combines(std::uint32_t n) { return {.fp32 = n}; }

  // The upper 16 bits of a word count blocks; 47 bits hold the fraction.
  static constexpr std::uint64_t one_block = std::uint64_t{1} << 48U;
  static constexpr double fixed_point = 140737488355328.0;

  template <class Lane>
  static INTERLACE_KERNEL bool join(const Lane& lane, const local<std::uint64_t>& words,
                                    const row_part& part, float& sum) {
    const auto mine =
        one_block + static_cast<std::uint64_t>(static_cast<double>(sum) * fixed_point);
    const std::uint64_t all = lane.atomic_add(words, part.slot, mine) + mine;
    lane.compute(operation::special, 2);
    if (all / one_block != part.count) return false;
    lane.store(words, part.slot, 0);
    sum = static_cast<float>(static_cast<double>(all % one_block) / fixed_point);
    return true;
  }
};

// The pull kernel. The numbers of operations in its lanes were counted in the machine code for
// sm_90.
template <class Rows>
struct rank_update {
  static constexpr std::uint32_t threads = Rows::threads;
  static constexpr std::uint32_t shared_bytes =
      Rows::template shared_bytes<rank_sum> + sum_bytes(2);

  Rows units;                             // the rows, each with the in-edges of a vertex
  local<const std::uint32_t> out_degree;  // out-degrees of this device's rows
  replicated<float> contribution;
  reduced<double> totals;  // [0]: dangling rank; [1]: sum of |rank' - rank|
  float damping = 0.85F;
  double vertices = 0;
  bool track_residual = false;

  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    const auto base = static_cast<float>((1.0 - static_cast<double>(damping) +
                                          static_cast<double>(damping) * block.load(totals, 0)) /
                                         vertices);
    auto dangling = lane_state<float>(block);
    auto residual = lane_state<float>(block);
    units.template reduce<rank_sum>(
        block,
        [&](const auto& lane, const auto& e) {
          return lane.load(contribution, lane.load_index(units.graph.columns, e));
        },
        [&](const auto& lane, std::uint32_t row, float sum) {
          const std::uint32_t degree = lane.load(out_degree, row);
          const auto divisor = static_cast<float>(degree == 0 ? 1 : degree);
          const float rank = base + damping * sum;
          const std::uint64_t v = units.graph.first_row + row;
          lane.store(contribution, v, rank / divisor);
          if (degree == 0) dangling[lane] += rank;
          if (track_residual) {
            residual[lane] += fabsf(rank - lane.load(contribution, v) * divisor);
          }
          // The division alone takes five of the fp32 operations.
          lane.compute({.fp32 = track_residual ? 9U : 7U,
                        .integer = track_residual ? 12U : 10U,
                        .special = 1});
        });
    add_sums(block, totals, track_residual ? 2 : 1, dangling, residual);
  }
};

// The push kernel: each vertex adds its rank, divided by its number of out-edges, to the vertices
// at the ends of its out-edges.
struct rank_push {
  static constexpr std::uint32_t threads = push_edges::threads;

  push_edges edges;
  local<const float> contribution;  // the contribution of each vertex of this device
  partitioned<float, combine::add> sums;

  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    edges.each(
        block, [](const auto&, std::uint64_t) { return true; },
        [&](const auto& warp, std::uint64_t row) { return warp.load(contribution, row); },
        [&](const auto& lane, std::uint32_t e, bool there, float pushed) {
          lane.update_if(there, sums, lane.load_index(edges.graph.columns, e), pushed);
          lane.compute(operation::integer, 8 + 3 * sums.devices);
        });
  }
};

// Computes the ranks of this device's vertices from their sums, and sets the sums to 0.
struct rank_of_sums {
  static constexpr std::uint32_t threads = 256;
  static constexpr std::uint32_t shared_bytes = sum_bytes(2);

  partitioned<float, combine::add> sums;
  local<float> contribution;
  local<const std::uint32_t> out_degree;
  reduced<double> totals;  // as in rank_update
  std::uint64_t first_vertex = 0;
  float damping = 0.85F;
  double vertices = 0;
  bool track_residual = false;

  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    const auto base = static_cast<float>((1.0 - static_cast<double>(damping) +
                                          static_cast<double>(damping) * block.load(totals, 0)) /
                                         vertices);
    auto dangling = lane_state<float>(block);
    auto residual = lane_state<float>(block);
    block.each([&](auto lane) {
      const std::uint64_t v = lane.global_index();
      if (v >= contribution.size) return;
      const float sum = lane.load(sums, first_vertex + v);
      const std::uint32_t degree = lane.load(out_degree, v);
      const auto divisor = static_cast<float>(degree == 0 ? 1 : degree);
      const float rank = base + damping * sum;
      if (track_residual) residual[lane] = fabsf(rank - lane.load(contribution, v) * divisor);
      if (degree == 0) dangling[lane] = rank;
      lane.store(sums, first_vertex + v, 0.0F);
      lane.store(contribution, v, rank / divisor);
      // The division alone takes five of the fp32 operations.
      lane.compute({.fp32 = track_residual ? 9U : 7U, .integer = 12, .special = 1});
    });
    add_sums(block, totals, track_residual ? 2 : 1, dangling, residual);
  }
};

// The graph, sorted by in-edges. Row v lists the sources of the edges into v. For pagerank_by_push
// the graph is sorted by out-edges instead, and row v lists the targets of the edges from v.
struct pagerank_graph {
  std::uint64_t vertices = 0;
  const std::uint64_t* offsets = nullptr;     // [vertices + 1]
  const std::uint32_t* columns = nullptr;     // [offsets[vertices]]
  const std::uint32_t* out_degree = nullptr;  // [vertices]
};

template <class Node, class Rows = edge_units>
class pagerank {
 public:
  // `boundaries`: device d owns vertices [boundaries[d], boundaries[d + 1]).
  pagerank(Node& node, const pagerank_graph& graph, kernel::region_options options, float damping)
      : node_(node),
        graph_(graph),
        boundaries_(options.boundaries),
        rank_(node.template create_region<float>(std::move(options))),
        totals_(node.template create_reduction<double, combine::add>(2, 64)),
        damping_(damping) {
    for (std::uint32_t d = 0; d < node.devices(); ++d) {
      const std::uint64_t begin = boundaries_[d];
      const std::uint64_t end = boundaries_[d + 1];
      parts_.push_back(
          {Rows::place(node, d, graph.offsets, graph.columns, begin, end),
           put(node, d,
               std::vector<std::uint32_t>(graph.out_degree + begin, graph.out_degree + end))});
    }
    reset();
  }

  // Sets every vertex to 1 / n again.
  void reset() {
    const auto n = static_cast<double>(graph_.vertices);
    std::vector<float> start(graph_.vertices);
    double dangling = 0;
    for (std::uint64_t v = 0; v < graph_.vertices; ++v) {
      start[v] = static_cast<float>(1.0 / n / std::max(1U, graph_.out_degree[v]));
      if (graph_.out_degree[v] == 0) dangling += 1.0 / n;
    }
    node_.set_front(rank_, start);
    node_.set_front(totals_, std::vector<double>{dangling, 0.0});
  }

  void enqueue_iteration(bool track_residual) {
    for (std::uint32_t d = 0; d < node_.devices(); ++d) {
      const part& p = parts_[d];
      using kernel_type = rank_update<Rows>;
      const kernel_type update{p.own.rows,
                               p.out_degree,
                               node_.view(rank_, d),
                               node_.view(totals_, d),
                               damping_,
                               static_cast<double>(graph_.vertices),
                               track_residual};
      node_.launch(d, update, {p.own.blocks, kernel_type::threads, kernel_type::shared_bytes},
                   rank_, p.own.mapping);
    }
    node_.exchange(rank_, totals_);
  }

  // The ranks that device `device` holds.
  std::vector<float> result(std::uint32_t device) const {
    std::vector<float> values = node_.front(rank_, device);
    for (std::uint64_t v = 0; v < graph_.vertices; ++v) {
      values[v] *= static_cast<float>(std::max(1U, graph_.out_degree[v]));
    }
    return values;
  }
  // The sum of |rank' - rank| in the last iteration, if that iteration tracked the residual.
  double residual() const { return node_.front(totals_, 0)[1]; }

 private:
  struct part {
    placed_rows<Rows> own;
    local<std::uint32_t> out_degree;
  };

  Node& node_;
  pagerank_graph graph_;
  std::vector<std::uint64_t> boundaries_;
  kernel::region<float> rank_;
  kernel::reduction<double, combine::add> totals_;
  float damping_;
  std::vector<part> parts_;
};

// PageRank by push. The sums of pushed ranks arrive at the owners in one exchange. A second
// exchange combines the sums of dangling ranks. The second exchange also keeps the next iteration's
// pushes apart from kernels that still read the sums.
template <class Node>
class pagerank_by_push {
 public:
  pagerank_by_push(Node& node, const pagerank_graph& graph, kernel::region_options options,
                   float damping)
      : node_(node),
        graph_(graph),
        boundaries_(options.boundaries),
        sums_(node.template create_partition<float, combine::add>(
            with_queues_for_edges(std::move(options), graph.offsets, graph.columns))),
        totals_(node.template create_reduction<double, combine::add>(2, 64)),
        damping_(damping) {
    for (std::uint32_t d = 0; d < node.devices(); ++d) {
      const std::uint64_t begin = boundaries_[d];
      const std::uint64_t end = boundaries_[d + 1];
      const std::uint32_t* degrees = graph.out_degree;
      parts_.push_back({push_edges::place(node, d, graph.offsets, graph.columns, begin, end),
                        put(node, d, std::vector<std::uint32_t>(degrees + begin, degrees + end)),
                        node.template allocate<float>(d, end - begin)});
    }
    reset();
  }

  // Sets every vertex to 1 / n again.
  void reset() {
    const auto n = static_cast<double>(graph_.vertices);
    double dangling = 0;
    for (std::uint32_t d = 0; d < node_.devices(); ++d) {
      std::vector<float> start(parts_[d].contribution.size);
      for (std::uint64_t v = 0; v < start.size(); ++v) {
        const std::uint32_t degree = graph_.out_degree[boundaries_[d] + v];
        start[v] = static_cast<float>(1.0 / n / std::max(1U, degree));
        if (degree == 0) dangling += 1.0 / n;
      }
      node_.upload(parts_[d].contribution, start);
      node_.set_part(sums_, d, std::vector<float>(start.size(), 0.0F));
    }
    node_.set_front(totals_, std::vector<double>{dangling, 0.0});
  }

  void enqueue_iteration(bool track_residual) {
    for (std::uint32_t d = 0; d < node_.devices(); ++d) {
      const part& p = parts_[d];
      node_.launch(d, rank_push{p.edges, p.contribution, node_.view(sums_, d)}, p.edges.shape(),
                   sums_);
    }
    node_.exchange(sums_);
    for (std::uint32_t d = 0; d < node_.devices(); ++d) {
      const part& p = parts_[d];
      const rank_of_sums ranks{node_.view(sums_, d),
                               p.contribution,
                               p.out_degree,
                               node_.view(totals_, d),
                               boundaries_[d],
                               damping_,
                               static_cast<double>(graph_.vertices),
                               track_residual};
      // NOLINTBEGIN(readability-static-accessed-through-instance)
      node_.launch(d, ranks,
                   {(p.contribution.size + ranks.threads - 1) / ranks.threads, ranks.threads,
                    ranks.shared_bytes});
      // NOLINTEND(readability-static-accessed-through-instance)
    }
    node_.exchange(totals_);
  }

  // The ranks of the device's own vertices.
  std::vector<float> result(std::uint32_t device) const {
    std::vector<float> values(graph_.vertices);
    const std::vector<float> own = node_.download(parts_[device].contribution);
    for (std::uint64_t k = 0; k < own.size(); ++k) {
      const std::uint64_t v = boundaries_[device] + k;
      values[v] = own[k] * static_cast<float>(std::max(1U, graph_.out_degree[v]));
    }
    return values;
  }
  double residual() const { return node_.front(totals_, 0)[1]; }

 private:
  struct part {
    push_edges edges;
    local<std::uint32_t> out_degree;
    local<float> contribution;
  };

  Node& node_;
  pagerank_graph graph_;
  std::vector<std::uint64_t> boundaries_;
  kernel::partition<float, combine::add> sums_;
  kernel::reduction<double, combine::add> totals_;
  float damping_;
  std::vector<part> parts_;
};

struct pagerank_problem {
  static constexpr const char* summary = "PageRank";
  static constexpr std::array arguments{"offsets", "columns", "out_degree",
                                        "damping", "kernel",  "subscribe"};
  using launching_kernels = kernel_list<rank_update<edge_units>, rank_update<row_warps>>;

  pagerank_graph graph;
  float damping = 0.85F;
  row_kernel kernel = row_kernel::balanced;
  // Whether a vertex's contribution goes only to devices with edges from the vertex.
  bool to_readers = false;

  static pagerank_problem make(const array_view<std::uint64_t>& offsets,
                               const array_view<std::uint32_t>& columns,
                               const array_view<std::uint32_t>& out_degree, double damping,
                               const std::string& kernel, const std::string& subscribe) {
    const std::size_t vertices = out_degree.size();
    if (offsets.size() != vertices + 1) throw usage_error("the graph needs an offset for each row");
    check_rows(offsets, columns, vertices, "vertices");
    return {{vertices, offsets.data(), columns.data(), out_degree.data()},
            static_cast<float>(damping),
            parse_row_kernel(kernel),
            parse_subscribers(subscribe)};
  }

  std::uint64_t elements() const { return graph.vertices; }

  template <class Node>
  auto on(Node& node, kernel::region_options options) const {
    using balanced = pagerank<Node, edge_units>;
    using by_warps = pagerank<Node, row_warps>;
    using by_push = pagerank_by_push<Node>;
    using work = chosen<balanced, by_warps, by_push>;
    if (kernel == row_kernel::push) {
      return work(std::in_place_type<by_push>, node, graph, std::move(options), damping);
    }
    if (to_readers) {
      auto readers =
          readers_of_columns(options.boundaries, graph.offsets, graph.columns, graph.vertices);
      options = sent_to_readers(std::move(options), std::move(readers));
    }
    return kernel == row_kernel::balanced
               ? work(std::in_place_type<balanced>, node, graph, std::move(options), damping)
               : work(std::in_place_type<by_warps>, node, graph, std::move(options), damping);
  }
};

}  // namespace interlace::workload

// The registers and instructions of the kernels, as nvcc 13.0 compiles them.
namespace interlace {

template <>
inline constexpr compiled_kernel compiled_as<workload::rank_update<workload::edge_units>>{32, 946};
template <>
inline constexpr compiled_kernel compiled_as<workload::rank_update<workload::row_warps>>{30, 508};

}  // namespace interlace
