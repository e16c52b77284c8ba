// Reductions over the edges of each row of a device, with one warp for each row. Bell and Garland
// (2009) call this the vector kernel for sparse matrices in compressed rows. Most programs with a
// sparse matrix have such a kernel.
//
// Lanes read adjacent edges of a row, and one lane stores the row's value. If rows go to other
// devices, each value is a separate store. Short rows leave lanes idle, and a block takes as long
// as its longest row. edge_units.hpp avoids both problems and stores whole cache lines.
//
// A `Reduction` defines the gathered values and how they are reduced, as in edge_units.hpp. This
// kernel never cuts a row into parts, so it does not call join.
#pragma once

#include <cstdint>
#include <vector>

#include "interlace/kernel/region.hpp"
#include "workload/shared/csr.hpp"
#include "workload/shared/parts.hpp"

namespace interlace::workload {

// The rows of a device, in the form that kernels use.
struct row_warps {
  static constexpr std::uint32_t threads = 256;
  static constexpr std::uint32_t per_block = 8;  // number of rows of a block

  csr_view graph;

  // The amount of shared memory that `reduce` needs in a block.
  template <class Reduction>
  static constexpr std::uint32_t shared_bytes = 0;

  // Copies the rows [first_row, last_row) of a graph to a device.
  template <class Node>
  static placed_rows<row_warps> place(Node& node, std::uint32_t device,
                                      const std::uint64_t* offsets, const std::uint32_t* columns,
                                      std::uint64_t first_row, std::uint64_t last_row) {
    placed_rows<row_warps> p;
    p.edges = owned_entries(offsets, first_row, last_row, device, "edges", threads);
    const std::uint32_t* own = columns + p.edges.first;
    p.rows.graph = {put(node, device, relative_offsets(offsets, first_row, last_row)),
                    put(node, device, std::vector<std::uint32_t>(own, own + p.edges.count)),
                    first_row, last_row - first_row};
    p.blocks = (last_row - first_row + per_block - 1) / per_block;
    p.mapping = kernel::block_mapping::contiguous(first_row, per_block, last_row);
    return p;
  }

  // Reduces each row. gather(lane, edge) returns the value of an edge, and finish(lane, row, value)
  // takes the result of a row. Rows and edges count from the device's first row and first edge.
  template <class Reduction, class Block, class Gather, class Finish>
  INTERLACE_KERNEL void reduce(Block& block, const Gather& gather, const Finish& finish) const {
    using value = typename Reduction::value;
    auto partial = lane_state<value>(block);
    const std::uint32_t width = block.warp_width();
    block.each_warp([&](auto warp) {
      // The form of this loop lets the compiler see that the loop has a single iteration if there
      // are as many warps as rows.
      for (std::uint32_t k = 0; k < per_block / warp.count(); ++k) {
        const std::uint32_t row =
            static_cast<std::uint32_t>(block.index()) * per_block + k * warp.count() + warp.index();
        if (row >= graph.rows) continue;
        const std::uint32_t begin = warp.load(graph.offsets, row);
        const std::uint32_t end = warp.load(graph.offsets, row + 1);
        warp.each([&](auto lane) {
          value v = Reduction::identity();
          for (auto e : lane.range(begin + lane.in_warp(), end, width)) {
            v = Reduction::combine(v, gather(lane, e));
          }
          partial[lane] = v;
          const std::uint32_t mine = (end - begin + width - 1 - lane.in_warp()) / width;
          lane.compute(Reduction::once() + Reduction::gathers(mine) + Reduction::combines(mine) +
                       operations{.integer = 30});
        });
        const value all = Reduction::over_warp(warp, partial);
        warp.each([&](auto lane) {
          if (lane.in_warp() == 0) finish(lane, row, all);
        });
      }
    });
  }
};

}  // namespace interlace::workload
