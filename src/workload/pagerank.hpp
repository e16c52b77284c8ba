// PageRank by pull (Page, Brin, Motwani and Winograd, 1999), one epoch an iteration.
//
//   rank'(v) = (1 - d) / n + d * (sum over edges u -> v of rank(u) / out_degree(u) + dangling / n)
//
// The region carries rank / max(out_degree, 1), which is what edges read: one gather an edge, and
// the rank itself is that times max(out_degree, 1). `dangling` is the rank of all vertices without
// an out-edge, summed by a reduction of the epoch before.
//
// Edges are cut into units of at most `tile`, a block each, so that the work is even however skewed
// the rows are. A unit is either a run of whole rows or a part of one row that has more edges than
// a tile. A block stages the gathers of its rows in shared memory, coalesced over edges, and
// reduces them by rows: a lane a short row, a warp a long one. Blocks that share a row add what
// they found to one word, which carries the sum in fixed point and counts the blocks: the last one
// finishes the row, and the result does not depend on who that is.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "base/errors.hpp"
#include "kernel/region.hpp"
#include "workload/csr.hpp"
#include "workload/parts.hpp"

namespace interlace::workload {

// The operations that lanes name are those of its machine code for sm_90.
struct rank_update {
  static constexpr std::uint32_t threads = 256;
  static constexpr std::uint32_t tile = 2048;         // edges of a unit
  static constexpr std::uint32_t max_rows = 1024;     // rows of a unit
  static constexpr std::uint32_t long_row = 64;       // edges from which a warp reduces the row
  static constexpr std::uint32_t most_parts = 65535;  // blocks that share a row
  static constexpr std::uint32_t shared_bytes = tile * sizeof(float) + sum_bytes(2);

  csr_view graph;                         // in-edges
  local<const std::uint32_t> unit_rows;   // unit b has rows [unit_rows[b], unit_rows[b + 1]),
  local<const std::uint32_t> unit_edges;  // edges [unit_edges[b], unit_edges[b + 1]),
  local<const std::uint32_t> unit_slots;  // and is a part of a row if unit_slots[b] != 0:
  local<std::uint64_t> row_sums;          // its word is row_sums[unit_slots[b] - 1]
  local<const std::uint32_t> out_degree;  // of the rows of this device
  replicated<float> contribution;
  reduced<double> totals;  // [0] dangling rank, [1] sum of |rank' - rank|
  float damping = 0.85F;
  double vertices = 0;
  bool track_residual = false;

  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    const std::uint32_t first_row = block.load(unit_rows, block.index());
    const std::uint32_t last_row = block.load(unit_rows, block.index() + 1);
    const std::uint32_t first = block.load(unit_edges, block.index());
    const std::uint32_t last = block.load(unit_edges, block.index() + 1);
    const std::uint32_t slot = block.load(unit_slots, block.index());
    const auto base = static_cast<float>((1.0 - static_cast<double>(damping) +
                                          static_cast<double>(damping) * block.load(totals, 0)) /
                                         vertices);
    auto gathered = shared<float>(block, tile);
    auto dangling = lane_state<float>(block);
    auto residual = lane_state<float>(block);

    const auto finish = [&](const auto& lane, std::uint32_t row, float sum) {
      const std::uint32_t degree = lane.load(out_degree, row);
      const auto divisor = static_cast<float>(degree == 0 ? 1 : degree);
      const float rank = base + damping * sum;
      const std::uint64_t v = graph.first_row + row;
      lane.store(contribution, v, rank / divisor);
      if (degree == 0) dangling[lane] += rank;
      if (track_residual) {
        residual[lane] += fabsf(rank - lane.load(contribution, v) * divisor);
      }
      // Five of fp32's divide.
      lane.compute(
          {.fp32 = track_residual ? 9U : 7U, .integer = track_residual ? 12U : 10U, .special = 1});
    };

    if (slot == 0) {
      block.each([&](auto lane) {
        for (auto e : lane.range(first + lane.index(), last, threads)) {
          lane.store(gathered, e - first,
                     lane.load(contribution, lane.load_index(graph.columns, e)));
        }
        // `base` is computed by every lane.
        lane.compute({.fp64 = 10, .integer = 19 + 6 * turns(lane, first, last), .special = 3});
      });
      reduce_rows(block, first_row, last_row, first, gathered, finish);
    } else {
      reduce_part(block, first_row, first, last, slot - 1, gathered, finish);
    }
    add_sums(block, totals, track_residual ? 2 : 1, dangling, residual);
  }

 private:
  // Turns of a loop from `first` to `last` over the lanes of a block.
  template <class Lane>
  INTERLACE_KERNEL static std::uint32_t turns(const Lane& lane, std::uint32_t first,
                                              std::uint32_t last) {
    return (last - first + threads - 1 - lane.index()) / threads;
  }

  template <class Block, class Shared, class Finish>
  INTERLACE_KERNEL void reduce_rows(Block& block, std::uint32_t first_row, std::uint32_t last_row,
                                    std::uint32_t first, const Shared& gathered,
                                    const Finish& finish) const {
    auto begin = lane_state<std::uint32_t>(block);
    auto end = lane_state<std::uint32_t>(block);
    auto sum = lane_state<float>(block);
    auto partial = lane_state<float>(block);
    auto is_long = lane_state<bool>(block);
    block.each_warp([&](auto warp) {
      const std::uint32_t width = block.warp_width();
      for (std::uint32_t row = first_row + warp.index() * width; row < last_row;
           row += warp.count() * width) {
        warp.each([&](auto lane) {
          const std::uint32_t own = row + lane.in_warp();
          sum[lane] = 0;
          is_long[lane] = false;
          if (own >= last_row) return;
          begin[lane] = lane.load(graph.offsets, own) - first;
          end[lane] = lane.load(graph.offsets, own + 1) - first;
          is_long[lane] = end[lane] - begin[lane] >= long_row;
          if (is_long[lane]) {
            lane.compute(operation::integer, 16);
            return;
          }
          float s = 0;
          for (auto e : lane.range(begin[lane], end[lane])) s += lane.load(gathered, e);
          sum[lane] = s;
          const std::uint32_t edges = end[lane] - begin[lane];
          lane.compute({.fp32 = edges, .integer = 32 + edges / 2});
        });
        for (std::uint64_t rest = warp.ballot(is_long); rest != 0; rest &= rest - 1) {
          const std::uint32_t owner = lowest_lane(rest);
          const auto from = warp.shuffle(begin, owner);
          const auto to = warp.shuffle(end, owner);
          warp.each([&](auto lane) {
            float s = 0;
            for (auto e : lane.range(from[lane] + lane.in_warp(), to[lane], width)) {
              s += lane.load(gathered, e);
            }
            partial[lane] = s;
            const std::uint32_t mine = (to[lane] - from[lane] + width - 1 - lane.in_warp()) / width;
            lane.compute({.fp32 = mine, .integer = 30 + mine});
          });
          const float total = warp.sum(partial);
          warp.each([&](auto lane) {
            if (lane.in_warp() == owner) sum[lane] = total;
          });
        }
        warp.each([&](auto lane) {
          if (row + lane.in_warp() < last_row) finish(lane, row + lane.in_warp(), sum[lane]);
        });
      }
    });
  }

  // Sums of contributions are at most 1: 47 bits of fraction leave 16 for the count of blocks.
  static constexpr std::uint64_t one_block = std::uint64_t{1} << 48U;
  static constexpr double fixed_point = 140737488355328.0;

  template <class Block, class Shared, class Finish>
  INTERLACE_KERNEL void reduce_part(Block& block, std::uint32_t row, std::uint32_t first,
                                    std::uint32_t last, std::uint32_t slot, const Shared& gathered,
                                    const Finish& finish) const {
    auto partial = lane_state<float>(block);
    block.each([&](auto lane) {
      float s = 0;
      for (auto e : lane.range(first + lane.index(), last, threads)) {
        s += lane.load(contribution, lane.load_index(graph.columns, e));
      }
      partial[lane] = s;
      lane.compute({.fp32 = turns(lane, first, last),
                    .fp64 = 10,
                    .integer = 26 + 4 * turns(lane, first, last),
                    .special = 3});
    });
    block.each_warp([&](auto warp) {
      const float total = warp.sum(partial);
      warp.each([&](auto lane) {
        if (lane.in_warp() == 0) lane.store(gathered, warp.index(), total);
      });
    });
    block.each([&](auto lane) {
      if (lane.index() != 0) return;
      float s = 0;
      for (auto w : lane.range(0U, threads / block.warp_width())) s += lane.load(gathered, w);
      const auto mine =
          one_block + static_cast<std::uint64_t>(static_cast<double>(s) * fixed_point);
      const std::uint64_t sum = lane.atomic_add(row_sums, slot, mine) + mine;
      const std::uint32_t edges = lane.load(graph.offsets, row + 1) - lane.load(graph.offsets, row);
      lane.compute({.fp32 = threads / block.warp_width(), .integer = 20, .special = 2});
      if (sum / one_block != (edges + tile - 1) / tile) return;
      lane.store(row_sums, slot, 0);  // everybody has been here: ready for the next epoch
      finish(lane, row, static_cast<float>(static_cast<double>(sum % one_block) / fixed_point));
    });
  }
};

// The graph by in-edges: row v lists the sources of edges into v.
struct pagerank_graph {
  std::uint64_t vertices = 0;
  const std::uint64_t* offsets = nullptr;     // [vertices + 1]
  const std::uint32_t* columns = nullptr;     // [offsets[vertices]]
  const std::uint32_t* out_degree = nullptr;  // [vertices]
};

// The units of rows [first_row, last_row); rows and edges count from those of first_row.
struct pagerank_units {
  std::vector<std::uint32_t> rows{0};
  std::vector<std::uint32_t> edges{0};
  std::vector<std::uint32_t> slots;
  std::uint32_t shared_rows = 0;  // rows that several units share

  std::uint64_t count() const { return slots.size(); }
};

inline pagerank_units make_units(const std::uint64_t* offsets, std::uint64_t first_row,
                                 std::uint64_t last_row) {
  pagerank_units units;
  const auto add = [&](std::uint64_t row, std::uint64_t edge, std::uint32_t slot) {
    units.rows.push_back(static_cast<std::uint32_t>(row - first_row));
    units.edges.push_back(static_cast<std::uint32_t>(edge - offsets[first_row]));
    units.slots.push_back(slot);
  };
  for (std::uint64_t row = first_row; row < last_row;) {
    const std::uint64_t begin = row;
    const std::uint64_t row_limit = std::min(last_row, begin + rank_update::max_rows);
    while (row < row_limit && offsets[row + 1] - offsets[begin] <= rank_update::tile) ++row;
    if (row > begin) {
      add(row, offsets[row], 0);
      continue;
    }
    if ((offsets[row + 1] - offsets[row]) / rank_update::tile >= rank_update::most_parts) {
      throw usage_error("vertex " + std::to_string(row) + " has " +
                        std::to_string(offsets[row + 1] - offsets[row]) + " in-edges; fewer than " +
                        std::to_string(std::uint64_t{rank_update::most_parts} * rank_update::tile) +
                        " are possible");
    }
    ++units.shared_rows;
    for (std::uint64_t edge = offsets[row]; edge < offsets[row + 1];) {
      edge = std::min<std::uint64_t>(edge + rank_update::tile, offsets[row + 1]);
      // All parts but the last start at the row that the next one starts at.
      add(edge == offsets[row + 1] ? row + 1 : row, edge, units.shared_rows);
    }
    ++row;
  }
  return units;
}

template <class Node>
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
    for (std::uint32_t d = 0; d < node.devices(); ++d) parts_.push_back(make_part(d));
    reset();
  }

  // Every vertex at 1 / n again.
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
      const rank_update update{{p.offsets, p.columns, boundaries_[d], p.rows},
                               p.unit_rows,
                               p.unit_edges,
                               p.unit_slots,
                               p.row_sums,
                               p.out_degree,
                               node_.view(rank_, d),
                               node_.view(totals_, d),
                               damping_,
                               static_cast<double>(graph_.vertices),
                               track_residual};
      node_.launch(d, update, {p.unit_slots.size, rank_update::threads, rank_update::shared_bytes},
                   rank_, p.mapping);
    }
    node_.exchange(rank_, totals_);
  }

  // Ranks as device `device` holds them.
  std::vector<float> result(std::uint32_t device) const {
    std::vector<float> values = node_.front(rank_, device);
    for (std::uint64_t v = 0; v < graph_.vertices; ++v) {
      values[v] *= static_cast<float>(std::max(1U, graph_.out_degree[v]));
    }
    return values;
  }
  // Sum of |rank' - rank| of the last iteration, if it tracked it.
  double residual() const { return node_.front(totals_, 0)[1]; }

 private:
  struct part {
    std::uint64_t rows = 0;
    local<std::uint32_t> offsets, columns, out_degree, unit_rows, unit_edges, unit_slots;
    local<std::uint64_t> row_sums;
    kernel::block_mapping mapping;
  };

  part make_part(std::uint32_t d) {
    const std::uint64_t begin = boundaries_[d];
    const std::uint64_t end = boundaries_[d + 1];
    const std::uint64_t first_edge = graph_.offsets[begin];
    const std::uint64_t edges = graph_.offsets[end] - first_edge;
    constexpr std::uint64_t most_edges = 0xffffffffU - rank_update::threads;  // indices step by it
    if (edges > most_edges) {
      throw usage_error("GPU " + std::to_string(d) + " would own " + std::to_string(edges) +
                        " edges; at most " + std::to_string(most_edges) +
                        " are possible: use more GPUs");
    }
    std::vector<std::uint32_t> offsets(end - begin + 1);
    for (std::uint64_t r = begin; r <= end; ++r) {
      offsets[r - begin] = static_cast<std::uint32_t>(graph_.offsets[r] - first_edge);
    }
    const auto units = make_units(graph_.offsets, begin, end);
    part p;
    p.rows = end - begin;
    p.offsets = put(node_, d, offsets);
    p.columns = put(node_, d,
                    std::vector<std::uint32_t>(graph_.columns + first_edge,
                                               graph_.columns + first_edge + edges));
    p.out_degree = put(
        node_, d, std::vector<std::uint32_t>(graph_.out_degree + begin, graph_.out_degree + end));
    p.unit_rows = put(node_, d, units.rows);
    p.unit_edges = put(node_, d, units.edges);
    p.unit_slots = put(node_, d, units.slots);
    p.row_sums = put(node_, d, std::vector<std::uint64_t>(units.shared_rows, 0));
    // Whichever part of a shared row comes last writes it, so each of them may.
    p.mapping = kernel::block_mapping::custom(
        [begin, rows = units.rows, slots = units.slots](std::uint64_t block) {
          const std::uint64_t last = slots[block] != 0 ? rows[block] + 1 : rows[block + 1];
          return std::vector<kernel::element_range>{{begin + rows[block], begin + last}};
        });
    return p;
  }

  Node& node_;
  pagerank_graph graph_;
  std::vector<std::uint64_t> boundaries_;
  kernel::region<float> rank_;
  kernel::reduction<double, combine::add> totals_;
  float damping_;
  std::vector<part> parts_;
};

}  // namespace interlace::workload
