// Reductions over the edges of each row of a device. The work is balanced even if the lengths of
// rows differ greatly.
//
// Edges are cut into units of at most `tile` edges, and each block has one unit. A unit is either a
// run of whole rows, or a part of one row that has more edges than a tile. A block stages the
// gathered values of its edges in shared memory, so that loads of edges are coalesced. It then
// reduces the values row by row: one lane reduces a short row, and a warp reduces a long row.
// Blocks that share a row join their results through words of device memory. Each word carries a
// complete message, so the order in which different words arrive does not matter. The last block
// finishes the row. The result does not depend on which block is last. The last block also leaves
// the words ready for the next epoch.
//
// A `Reduction` defines the gathered values and how they are reduced:
//
//   value                                   type of a gathered value
//   identity(), combine(a, b)               combine is commutative
//   over_warp(warp, state)                  combines the lane states of a warp
//   once()                                  operations of every lane, without gathers and combines
//   gathers(n)                              operations of n gathers of a lane, without the loads
//   combines(n)                             operations of n combinations
//   join(lane, words, part, v)              joins v with the results of the row's other parts;
//                                           returns true in the part that comes last, and v is
//                                           then the result of the whole row
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "interlace/base/errors.hpp"
#include "interlace/kernel/region.hpp"
#include "workload/shared/csr.hpp"
#include "workload/shared/parts.hpp"

namespace interlace::workload {

// A block's part of a row that several blocks share.
struct row_part {
  std::uint32_t slot = 0;   // number of this row among the shared rows
  std::uint32_t unit = 0;   // unit of the row's first part
  std::uint32_t index = 0;  // number of this part among the parts of the row
  std::uint32_t count = 0;
};

// The units of a device, in the form that kernels use.
struct edge_units {
  static constexpr std::uint32_t threads = 256;
  static constexpr std::uint32_t tile = 2048;      // edges of a unit
  static constexpr std::uint32_t max_rows = 1024;  // rows of a unit
  // A row with at least this many edges is reduced by a warp, and a shorter row by a lane.
  static constexpr std::uint32_t long_row = 64;
  // The compiler unrolls the loop over a short row `short_unroll` times. It unrolls the other loops
  // `unroll` times.
  static constexpr std::uint32_t short_unroll = 16;
  static constexpr std::uint32_t unroll = 4;
  static constexpr std::uint32_t most_parts = 65535;  // the most blocks that can share a row
  // A device gets at least this many rounds of blocks, unless units would become too small. If the
  // device held all blocks at the same time, it would gather first and store last. In this case, no
  // work would hide the transfers, and the device would wait for its longest block.
  static constexpr std::uint32_t least_rounds = 3;
  // The number of rows whose 4-byte values fill a cache line.
  static constexpr std::uint32_t line_rows = 32;

  csr_view graph;
  local<const std::uint32_t> rows;   // unit b has the rows [rows[b], rows[b + 1])
  local<const std::uint32_t> edges;  // unit b has the edges [edges[b], edges[b + 1])
  local<const std::uint32_t> slots;  // unit b is a part of a row if slots[b] != 0
  // One word for each unit. Blocks that share a row join their results through these words.
  local<std::uint64_t> words;

  // The amount of shared memory that `reduce` needs in a block.
  template <class Reduction>
  static constexpr std::uint32_t shared_bytes = tile * sizeof(typename Reduction::value);

  // Copies the rows [first_row, last_row) of a graph to a device.
  template <class Node>
  static placed_rows<edge_units> place(Node& node, std::uint32_t device,
                                       const std::uint64_t* offsets, const std::uint32_t* columns,
                                       std::uint64_t first_row, std::uint64_t last_row);

  // Reduces each row. gather(lane, edge) returns the value of an edge, and finish(lane, row, value)
  // takes the result of a row. Rows and edges count from the device's first row and first edge.
  template <class Reduction, class Block, class Gather, class Finish>
  INTERLACE_KERNEL void reduce(Block& block, const Gather& gather, const Finish& finish) const {
    const std::uint32_t first_row = block.load(rows, block.index());
    const std::uint32_t last_row = block.load(rows, block.index() + 1);
    const std::uint32_t first = block.load(edges, block.index());
    const std::uint32_t last = block.load(edges, block.index() + 1);
    const std::uint32_t slot = block.load(slots, block.index());
    auto gathered = shared<typename Reduction::value>(block, tile);
    if (slot == 0) {
      block.each([&](auto lane) {
        const auto put = [&](const auto& e) { lane.store(gathered, e - first, gather(lane, e)); };
        constexpr operations each{.integer = 2};
        if (lane.unrolls()) {
          for (auto e : lane.carrying(unroll, Reduction::gathers(1) + each, first + lane.index(),
                                      last, threads)) {
            put(e);
          }
          lane.compute(Reduction::once() + operations{.integer = 19});
        } else {
          for (auto e : lane.range(first + lane.index(), last, threads)) put(e);
          const std::uint32_t mine = turns(lane, first, last);
          lane.compute(Reduction::once() + Reduction::gathers(mine) +
                       operations{.integer = 19 + 2 * mine});
        }
      });
      reduce_rows<Reduction>(block, first_row, last_row, first, gathered, finish);
    } else {
      reduce_part<Reduction>(block, first_row, first, last, slot - 1, gathered, gather, finish);
    }
  }

 private:
  // The number of turns in which the lanes of a block complete a loop from `first` to `last`.
  template <class Lane>
  INTERLACE_KERNEL static std::uint32_t turns(const Lane& lane, std::uint32_t first,
                                              std::uint32_t last) {
    return (last - first + threads - 1 - lane.index()) / threads;
  }

  template <class Reduction, class Block, class Shared, class Finish>
  INTERLACE_KERNEL void reduce_rows(Block& block, std::uint32_t first_row, std::uint32_t last_row,
                                    std::uint32_t first, const Shared& gathered,
                                    const Finish& finish) const {
    using value = typename Reduction::value;
    auto begin = lane_state<std::uint32_t>(block);
    auto end = lane_state<std::uint32_t>(block);
    auto result = lane_state<value>(block);
    auto partial = lane_state<value>(block);
    auto is_long = lane_state<bool>(block);
    block.each_warp([&](auto warp) {
      const std::uint32_t width = block.warp_width();
      // A warp's rows begin at a multiple of the warp's width, so that the warp stores whole cache
      // lines. If two warps stored one line together, the line would go to the peers in two
      // packets, each with its own header.
      const auto before = static_cast<std::uint32_t>((graph.first_row + first_row) % width);
      const std::uint32_t places = before + last_row - first_row;
      for (std::uint32_t place = warp.index() * width; place < places;
           place += warp.count() * width) {
        // This subtraction may wrap modulo 2^32. The lanes below `before` have no row.
        const std::uint32_t row = first_row + place - before;
        warp.each([&](auto lane) {
          const std::uint32_t own = row + lane.in_warp();
          result[lane] = Reduction::identity();
          is_long[lane] = false;
          if (place + lane.in_warp() < before || place + lane.in_warp() >= places) return;
          begin[lane] = lane.load(graph.offsets, own) - first;
          end[lane] = lane.load(graph.offsets, own + 1) - first;
          is_long[lane] = end[lane] - begin[lane] >= long_row;
          if (is_long[lane]) {
            lane.compute(operation::integer, 16);
            return;
          }
          value v = Reduction::identity();
          for (auto e :
               lane.carrying(short_unroll, Reduction::combines(1), begin[lane], end[lane])) {
            v = Reduction::combine(v, lane.load(gathered, e));
          }
          result[lane] = v;
          const std::uint32_t own_edges = end[lane] - begin[lane];
          lane.compute(operation::integer, 32 + own_edges / 2);
        });
        for (std::uint64_t rest = warp.ballot(is_long); rest != 0; rest &= rest - 1) {
          const std::uint32_t owner = lowest_lane(rest);
          const auto from = warp.shuffle(begin, owner);
          const auto to = warp.shuffle(end, owner);
          warp.each([&](auto lane) {
            value v = Reduction::identity();
            for (auto e : lane.carrying(unroll, Reduction::combines(1), from[lane] + lane.in_warp(),
                                        to[lane], width)) {
              v = Reduction::combine(v, lane.load(gathered, e));
            }
            partial[lane] = v;
            const std::uint32_t mine = (to[lane] - from[lane] + width - 1 - lane.in_warp()) / width;
            lane.compute(operation::integer, 30 + mine);
          });
          const value all = Reduction::over_warp(warp, partial);
          warp.each([&](auto lane) {
            if (lane.in_warp() == owner) result[lane] = all;
          });
        }
        warp.each([&](auto lane) {
          if (place + lane.in_warp() < before || place + lane.in_warp() >= places) return;
          finish(lane, row + lane.in_warp(), result[lane]);
        });
      }
    });
  }

  template <class Reduction, class Block, class Shared, class Gather, class Finish>
  INTERLACE_KERNEL void reduce_part(Block& block, std::uint32_t row, std::uint32_t first,
                                    std::uint32_t last, std::uint32_t slot, const Shared& gathered,
                                    const Gather& gather, const Finish& finish) const {
    using value = typename Reduction::value;
    auto partial = lane_state<value>(block);
    block.each([&](auto lane) {
      value v = Reduction::identity();
      for (auto e : lane.carrying(unroll, Reduction::gathers(1) + Reduction::combines(1),
                                  first + lane.index(), last, threads)) {
        v = Reduction::combine(v, gather(lane, e));
      }
      partial[lane] = v;
      lane.compute(Reduction::once() + operations{.integer = 26});
    });
    block.each_warp([&](auto warp) {
      const value all = Reduction::over_warp(warp, partial);
      warp.each([&](auto lane) {
        if (lane.in_warp() == 0) lane.store(gathered, warp.index(), all);
      });
    });
    block.each([&](auto lane) {
      if (lane.index() != 0) return;
      value v = Reduction::identity();
      for (auto w : lane.range(0U, threads / block.warp_width())) {
        v = Reduction::combine(v, lane.load(gathered, w));
      }
      lane.compute(Reduction::combines(threads / block.warp_width()) + operations{.integer = 20});
      const std::uint32_t begin = lane.load(graph.offsets, row);
      const std::uint32_t end = lane.load(graph.offsets, row + 1);
      const std::uint32_t index = (first - begin) / tile;
      const row_part part{slot, static_cast<std::uint32_t>(block.index()) - index, index,
                          (end - begin + tile - 1) / tile};
      if (Reduction::join(lane, words, part, v)) finish(lane, row, v);
    });
  }
};

// The units of rows [first_row, last_row). Rows count from first_row, and edges count from the
// first edge of first_row.
struct unit_table {
  std::vector<std::uint32_t> rows{0};
  std::vector<std::uint32_t> edges{0};
  std::vector<std::uint32_t> slots;
  std::uint32_t shared_rows = 0;  // number of rows that several units share

  std::uint64_t count() const { return slots.size(); }
};

// Limits of units that have several rows. These limits must not exceed the limits of edge_units.
struct unit_limits {
  std::uint32_t max_rows = edge_units::max_rows;
  std::uint32_t max_edges = edge_units::tile;
  // Units end at multiples of this many rows of the graph, unless that would shorten a unit by more
  // than a quarter. If two blocks stored one cache line together, the line would go to the peers in
  // two packets, each with its own header.
  std::uint32_t line_rows = 1;
};

inline unit_table make_units(const std::uint64_t* offsets, std::uint64_t first_row,
                             std::uint64_t last_row, const unit_limits& limits = {}) {
  unit_table units;
  const auto add = [&](std::uint64_t row, std::uint64_t edge, std::uint32_t slot) {
    units.rows.push_back(static_cast<std::uint32_t>(row - first_row));
    units.edges.push_back(static_cast<std::uint32_t>(edge - offsets[first_row]));
    units.slots.push_back(slot);
  };
  for (std::uint64_t row = first_row; row < last_row;) {
    const std::uint64_t begin = row;
    const std::uint64_t row_limit = std::min(last_row, begin + limits.max_rows);
    const auto fits = [&](std::uint64_t more, std::uint32_t most) {
      return offsets[more + 1] - offsets[begin] <= most;
    };
    if (fits(row, edge_units::tile)) ++row;
    while (row > begin && row < row_limit && fits(row, limits.max_edges)) ++row;
    if (row > begin) {
      const std::uint64_t line = row / limits.line_rows * limits.line_rows;
      if (row < last_row && line > begin && 4 * (row - line) <= row - begin) row = line;
      add(row, offsets[row], 0);
      continue;
    }
    if ((offsets[row + 1] - offsets[row]) / edge_units::tile >= edge_units::most_parts) {
      throw usage_error("vertex " + std::to_string(row) + " has " +
                        std::to_string(offsets[row + 1] - offsets[row]) + " in-edges; fewer than " +
                        std::to_string(std::uint64_t{edge_units::most_parts} * edge_units::tile) +
                        " are possible");
    }
    ++units.shared_rows;
    for (std::uint64_t edge = offsets[row]; edge < offsets[row + 1];) {
      edge = std::min<std::uint64_t>(edge + edge_units::tile, offsets[row + 1]);
      // Every part except the last part ends at the row at which the next part begins.
      add(edge == offsets[row + 1] ? row + 1 : row, edge, units.shared_rows);
    }
    ++row;
  }
  return units;
}

// The units for a device that holds `at_once` blocks at a time. Units are as large as `limits` and
// the number of rounds allow.
inline unit_table units_in_rounds(const std::uint64_t* offsets, std::uint64_t first_row,
                                  std::uint64_t last_row, std::uint64_t at_once,
                                  unit_limits limits) {
  unit_table units = make_units(offsets, first_row, last_row, limits);
  while (units.count() < edge_units::least_rounds * at_once &&
         limits.max_rows > edge_units::threads) {
    limits.max_rows /= 2;
    limits.max_edges /= 2;
    units = make_units(offsets, first_row, last_row, limits);
  }
  return units;
}

template <class Node>
placed_rows<edge_units> edge_units::place(Node& node, std::uint32_t device,
                                          const std::uint64_t* offsets,
                                          const std::uint32_t* columns, std::uint64_t first_row,
                                          std::uint64_t last_row) {
  placed_rows<edge_units> p;
  p.edges = owned_entries(offsets, first_row, last_row, device, "edges", threads);
  const auto cut = [&] {
    const std::uint64_t held = threads_at_once(node, device);
    if (held == 0) return make_units(offsets, first_row, last_row);
    // Without peers, units do not need to end at whole cache lines.
    const std::uint32_t lines = node.devices() > 1 ? line_rows : 1;
    return units_in_rounds(offsets, first_row, last_row, held / threads, {.line_rows = lines});
  };
  const unit_table units = cut();
  const std::uint32_t* own = columns + p.edges.first;
  p.rows.graph = {put(node, device, relative_offsets(offsets, first_row, last_row)),
                  put(node, device, std::vector<std::uint32_t>(own, own + p.edges.count)),
                  first_row, last_row - first_row};
  p.rows.rows = put(node, device, units.rows);
  p.rows.edges = put(node, device, units.edges);
  p.rows.slots = put(node, device, units.slots);
  p.rows.words = put(node, device, std::vector<std::uint64_t>(units.count(), 0));
  p.blocks = units.count();
  // The part that comes last writes a shared row. Any part can be the last, so the mapping says
  // that each part writes the row.
  p.mapping = kernel::block_mapping::custom(
      [first_row, rows = units.rows, slots = units.slots](std::uint64_t block) {
        const std::uint64_t last = slots[block] != 0 ? rows[block] + 1 : rows[block + 1];
        return std::vector<kernel::element_range>{{first_row + rows[block], first_row + last}};
      });
  return p;
}

}  // namespace interlace::workload
