// Single-source shortest paths by Bellman-Ford (Bellman, 1958) in pull form. An iteration is one
// epoch:
//
//   distance'(v) = min(distance(v), min over edges u -> v of distance(u) + weight(u, v))
//
// Weights are float32 and at least 0. A distance is infinity while no path is known. After k
// iterations, a distance is at most the length of the shortest path with k edges. The search ends
// after an iteration that changes no distance.
//
// Every iteration reads every edge. An edge takes 8 B (column and weight, coalesced), and a gather
// of 4 B. A gather that misses the caches costs a sector of 32 B. A row adds 12 B: its offset, and
// its distance, which is both read and written. If the L2 of a GPU holds the distances, the limit
// is therefore the memory bandwidth divided by 8 B for each edge and 12 B for each row. For larger
// graphs the limit is the rate of L2 sectors. The two operations of an edge (an addition and a
// minimum) are far below both limits.
//
// The minima over the in-edges of a vertex are computed by edge_units.hpp or row_warps.hpp.
// Distances are not negative, so their bits can be compared as unsigned integers. Minima are exact,
// so the order of operations does not change a result.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
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

// The minimum of distances, compared by their bits.
struct path_min {
  using value = std::uint32_t;
  static INTERLACE_KERNEL std::uint32_t identity() {
    return std::bit_cast<std::uint32_t>(std::numeric_limits<float>::infinity());
  }
  static INTERLACE_KERNEL std::uint32_t combine(std::uint32_t a, std::uint32_t b) {
    return combine_values<std::uint32_t, combine::min>(a, b);
  }
  template <class Warp, class State>
  static INTERLACE_KERNEL std::uint32_t over_warp(const Warp& warp, const State& state) {
    return warp.min(state);
  }
  static INTERLACE_KERNEL operations once() { return {}; }
  static INTERLACE_KERNEL operations gathers(std::uint32_t n) {
    return {.fp32 = n, .integer = 5 * n};
  }
  static INTERLACE_KERNEL operations combines(std::uint32_t n) { return {.minimum = n}; }

  // Combines the parts of a row in a tree. Two groups of parts meet at a word. The group that comes
  // first leaves its minimum in the word. The other group continues with the minimum of both
  // groups. One atomic addition stores a minimum together with a mark, which says that a minimum
  // has been stored.
  template <class Lane>
  static INTERLACE_KERNEL bool join(const Lane& lane, const local<std::uint64_t>& words,
                                    const row_part& part, std::uint32_t& least) {
    constexpr std::uint64_t present = std::uint64_t{1} << 32U;
    for (std::uint32_t size = 1; size < part.count; size *= 2) {
      const std::uint32_t left = part.index & ~(2 * size - 1);
      const std::uint32_t right = left + size;
      if (right >= part.count) continue;
      // Each word belongs to one pair of groups: no other pair has this part as the first part of
      // its right group.
      const std::uint64_t other = lane.atomic_add(words, part.unit + right, present + least);
      if (other == 0) return false;
      lane.store(words, part.unit + right, 0);
      least = combine(least, static_cast<std::uint32_t>(other));
      lane.compute(operation::integer, 8);
    }
    return true;
  }
};

template <class Rows>
struct path_update {
  static constexpr std::uint32_t threads = Rows::threads;
  static constexpr std::uint32_t shared_bytes =
      Rows::template shared_bytes<path_min> + sum_bytes<std::uint32_t>(1);

  Rows units;                  // the rows, each with the in-edges of a vertex
  local<const float> weights;  // weights of this device's edges
  replicated<float> distance;
  reduced<double> totals;  // [0]: number of vertices whose distance changed
  bool track_residual = false;

  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    auto changed = lane_state<std::uint32_t>(block);
    units.template reduce<path_min>(
        block,
        [&](const auto& lane, const auto& e) {
          const float length = lane.load(distance, lane.load_index(units.graph.columns, e));
          return std::bit_cast<std::uint32_t>(length + lane.load(weights, e));
        },
        [&](const auto& lane, std::uint32_t row, std::uint32_t least) {
          const std::uint64_t v = units.graph.first_row + row;
          const auto before = std::bit_cast<std::uint32_t>(lane.load(distance, v));
          lane.store(distance, v, std::bit_cast<float>(path_min::combine(before, least)));
          if (least < before) ++changed[lane];
          lane.compute(operation::integer, 12);
        });
    if (track_residual) add_sums<std::uint32_t>(block, totals, 1, changed);
  }
};

// Shortest paths by push: each vertex whose distance changed offers paths along its out-edges.
struct path_push {
  static constexpr std::uint32_t threads = push_edges::threads;

  push_edges edges;
  local<const float> weights;  // weights of this device's edges
  local<const float> known;    // distances of this device's vertices
  // For each vertex of this device, whether its distance changed in the last iteration.
  local<const std::uint32_t> frontier;
  partitioned<float, combine::min> distance;

  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    edges.each(
        block, [&](const auto& warp, std::uint64_t row) { return warp.load(frontier, row) != 0; },
        [&](const auto& warp, std::uint64_t row) { return warp.load(known, row); },
        [&](const auto& lane, std::uint32_t e, bool there, float length) {
          lane.update_if(there, distance, lane.load_index(edges.graph.columns, e),
                         length + lane.load(weights, e));
          lane.compute({.fp32 = 1, .integer = 8 + 3 * distance.devices});
        });
  }
};

// Finds the vertices of this device whose distance changed.
struct path_frontier {
  static constexpr std::uint32_t threads = 256;
  static constexpr std::uint32_t shared_bytes = sum_bytes<std::uint32_t>(1);

  partitioned<float, combine::min> distance;
  local<float> known;
  local<std::uint32_t> frontier;
  reduced<double> totals;  // as in path_update
  std::uint64_t first_vertex = 0;

  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    auto changed = lane_state<std::uint32_t>(block);
    block.each([&](auto lane) {
      const std::uint64_t v = lane.global_index();
      if (v >= known.size) return;
      const float now = lane.load(distance, first_vertex + v);
      const bool less = now < lane.load(known, v);
      changed[lane] = less ? 1 : 0;
      lane.store(known, v, now);
      lane.store(frontier, v, less ? 1U : 0U);
      lane.compute({.fp32 = 1, .integer = 8});
    });
    add_sums<std::uint32_t>(block, totals, 1, changed);
  }
};

// The graph, sorted by in-edges. Row v lists the sources of the edges into v. For sssp_by_push the
// graph is sorted by out-edges instead, and row v lists the targets of the edges from v.
struct sssp_graph {
  std::uint64_t vertices = 0;
  const std::uint64_t* offsets = nullptr;  // [vertices + 1]
  const std::uint32_t* columns = nullptr;  // [offsets[vertices]]
  const float* weights = nullptr;          // [offsets[vertices]]
};

// Throws usage_error unless the source exists and no weight is negative.
inline void check(const sssp_graph& graph, std::uint64_t source) {
  if (source >= graph.vertices) {
    throw usage_error("there is no vertex " + std::to_string(source) +
                      " to start from; the number of vertices is " +
                      std::to_string(graph.vertices));
  }
  for (std::uint64_t e = 0; e < graph.offsets[graph.vertices]; ++e) {
    if (graph.weights[e] >= 0) continue;
    throw usage_error("edge " + std::to_string(e) + " has the weight " +
                      std::to_string(graph.weights[e]) + "; weights must be at least 0");
  }
}

template <class Node, class Rows = edge_units>
class sssp {
 public:
  // `options.boundaries`: device d owns vertices [boundaries[d], boundaries[d + 1]).
  sssp(Node& node, const sssp_graph& graph, kernel::region_options options, std::uint64_t source)
      : node_(node),
        vertices_(graph.vertices),
        source_(source),
        boundaries_(options.boundaries),
        distance_(node.template create_region<float>(std::move(options))),
        totals_(node.template create_reduction<double, combine::add>(1, 64)) {
    check(graph, source);
    for (std::uint32_t d = 0; d < node.devices(); ++d) {
      const auto own =
          Rows::place(node, d, graph.offsets, graph.columns, boundaries_[d], boundaries_[d + 1]);
      const float* weights = graph.weights + own.edges.first;
      parts_.push_back({own, put(node, d, std::vector<float>(weights, weights + own.edges.count))});
    }
    reset();
  }

  // Resets the distances. Afterwards, only the source has a finite distance.
  void reset() {
    std::vector<float> start(vertices_, std::numeric_limits<float>::infinity());
    start[source_] = 0;
    node_.set_front(distance_, start);
    node_.set_front(totals_, std::vector<double>{0.0});
  }

  void enqueue_iteration(bool track_residual) {
    for (std::uint32_t d = 0; d < node_.devices(); ++d) {
      const part& p = parts_[d];
      using kernel_type = path_update<Rows>;
      const kernel_type update{p.own.rows, p.weights, node_.view(distance_, d),
                               node_.view(totals_, d), track_residual};
      node_.launch(d, update, {p.own.blocks, kernel_type::threads, kernel_type::shared_bytes},
                   distance_, p.own.mapping);
    }
    if (track_residual) {
      node_.exchange(distance_, totals_);
    } else {
      node_.exchange(distance_);
    }
  }

  // The distances that device `device` holds.
  std::vector<float> result(std::uint32_t device) const { return node_.front(distance_, device); }
  // The number of vertices whose distance changed in the last iteration, if that iteration tracked
  // the residual. The number is 0 once all distances are final.
  double residual() const { return node_.front(totals_, 0)[0]; }

 private:
  struct part {
    placed_rows<Rows> own;
    local<float> weights;
  };

  Node& node_;
  std::uint64_t vertices_;
  std::uint64_t source_;
  std::vector<std::uint64_t> boundaries_;
  kernel::region<float> distance_;
  kernel::reduction<double, combine::add> totals_;
  std::vector<part> parts_;
};

// Shortest paths by push. The offered paths arrive at the owners in one exchange. A second exchange
// counts the changes. The second exchange also keeps the next iteration's offers apart from kernels
// that still read the distances.
template <class Node>
class sssp_by_push {
 public:
  sssp_by_push(Node& node, const sssp_graph& graph, kernel::region_options options,
               std::uint64_t source)
      : node_(node),
        vertices_(graph.vertices),
        source_(source),
        boundaries_(options.boundaries),
        distance_(node.template create_partition<float, combine::min>(
            with_queues_for_edges(std::move(options), graph.offsets, graph.columns))),
        totals_(node.template create_reduction<double, combine::add>(1, 64)) {
    check(graph, source);
    for (std::uint32_t d = 0; d < node.devices(); ++d) {
      const std::uint64_t begin = boundaries_[d];
      const std::uint64_t end = boundaries_[d + 1];
      parts_.push_back({push_edges::place(node, d, graph.offsets, graph.columns, begin, end),
                        put(node, d,
                            std::vector<float>(graph.weights + graph.offsets[begin],
                                               graph.weights + graph.offsets[end])),
                        node.template allocate<float>(d, end - begin),
                        node.template allocate<std::uint32_t>(d, end - begin)});
    }
    reset();
  }

  // Resets the distances. Afterwards, only the source has a finite distance and paths to offer.
  void reset() {
    for (std::uint32_t d = 0; d < node_.devices(); ++d) {
      std::vector<float> start(parts_[d].known.size, std::numeric_limits<float>::infinity());
      std::vector<std::uint32_t> frontier(start.size(), 0);
      if (source_ >= boundaries_[d] && source_ < boundaries_[d + 1]) {
        start[source_ - boundaries_[d]] = 0;
        frontier[source_ - boundaries_[d]] = 1;
      }
      node_.set_part(distance_, d, start);
      node_.upload(parts_[d].known, start);
      node_.upload(parts_[d].frontier, frontier);
    }
    node_.set_front(totals_, std::vector<double>{0.0});
  }

  void enqueue_iteration(bool /*track_residual*/) {
    for (std::uint32_t d = 0; d < node_.devices(); ++d) {
      const part& p = parts_[d];
      node_.launch(d, path_push{p.edges, p.weights, p.known, p.frontier, node_.view(distance_, d)},
                   p.edges.shape(), distance_);
    }
    node_.exchange(distance_);
    for (std::uint32_t d = 0; d < node_.devices(); ++d) {
      const part& p = parts_[d];
      const path_frontier next{node_.view(distance_, d), p.known, p.frontier,
                               node_.view(totals_, d), boundaries_[d]};
      node_.launch(
          d, next,
          // NOLINTNEXTLINE(readability-static-accessed-through-instance)
          {(p.known.size + next.threads - 1) / next.threads, next.threads, next.shared_bytes});
    }
    node_.exchange(totals_);
  }

  // The distances of the device's own vertices.
  std::vector<float> result(std::uint32_t device) const {
    std::vector<float> values(vertices_);
    const std::vector<float> own = node_.part(distance_, device);
    std::copy(own.begin(), own.end(),
              values.begin() + static_cast<std::ptrdiff_t>(boundaries_[device]));
    return values;
  }
  // The number of vertices whose distance changed in the last iteration.
  double residual() const { return node_.front(totals_, 0)[0]; }

 private:
  struct part {
    push_edges edges;
    local<float> weights;
    local<float> known;
    local<std::uint32_t> frontier;
  };

  Node& node_;
  std::uint64_t vertices_;
  std::uint64_t source_;
  std::vector<std::uint64_t> boundaries_;
  kernel::partition<float, combine::min> distance_;
  kernel::reduction<double, combine::add> totals_;
  std::vector<part> parts_;
};

struct sssp_problem {
  static constexpr const char* summary = "shortest paths";
  static constexpr std::array arguments{"offsets", "columns", "weights",
                                        "source",  "kernel",  "subscribe"};
  using launching_kernels = kernel_list<path_update<edge_units>, path_update<row_warps>>;

  sssp_graph graph;
  std::uint64_t source = 0;
  row_kernel kernel = row_kernel::balanced;
  // Whether a vertex's distance goes only to devices with edges from the vertex.
  bool to_readers = false;

  static sssp_problem make(const array_view<std::uint64_t>& offsets,
                           const array_view<std::uint32_t>& columns,
                           const array_view<float>& weights, std::uint64_t source,
                           const std::string& kernel, const std::string& subscribe) {
    check_rows(offsets, columns, offsets.size() - 1, "vertices");
    if (weights.size() != columns.size()) {
      throw usage_error("the graph needs a weight for each edge");
    }
    return {{offsets.size() - 1, offsets.data(), columns.data(), weights.data()},
            source,
            parse_row_kernel(kernel),
            parse_subscribers(subscribe)};
  }

  std::uint64_t elements() const { return graph.vertices; }

  template <class Node>
  auto on(Node& node, kernel::region_options options) const {
    using balanced = sssp<Node, edge_units>;
    using by_warps = sssp<Node, row_warps>;
    using by_push = sssp_by_push<Node>;
    using work = chosen<balanced, by_warps, by_push>;
    if (kernel == row_kernel::push) {
      return work(std::in_place_type<by_push>, node, graph, std::move(options), source);
    }
    if (to_readers) {
      auto readers =
          readers_of_columns(options.boundaries, graph.offsets, graph.columns, graph.vertices);
      options = sent_to_readers(std::move(options), std::move(readers));
    }
    return kernel == row_kernel::balanced
               ? work(std::in_place_type<balanced>, node, graph, std::move(options), source)
               : work(std::in_place_type<by_warps>, node, graph, std::move(options), source);
  }
};

}  // namespace interlace::workload

// The registers and instructions of the kernels, as nvcc 13.0 compiles them.
namespace interlace {

template <>
inline constexpr compiled_kernel compiled_as<workload::path_update<workload::edge_units>>{32, 611};
template <>
inline constexpr compiled_kernel compiled_as<workload::path_update<workload::row_warps>>{32, 210};

}  // namespace interlace
