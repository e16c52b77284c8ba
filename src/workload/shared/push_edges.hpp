// Kernels that go over the out-edges of a graph and update the vertices at the ends of these edges.
// These vertices can belong to any device.
//
// The out-edges of a vertex are cut into pieces, and a warp handles a piece. Without pieces, the
// warp of a vertex with very many edges would work long after all other warps.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "interlace/kernel.hpp"
#include "interlace/kernel/region.hpp"
#include "workload/shared/csr.hpp"
#include "workload/shared/parts.hpp"

namespace interlace::workload {

struct push_edges {
  static constexpr std::uint32_t threads = 256;
  // The number of pieces of a warp. The number is large so that the warp's update packets fill.
  static constexpr std::uint32_t pieces_a_warp = 32;
  static constexpr std::uint32_t most_edges = 256;  // most edges of a piece

  csr_view graph;  // each row has the edges of a piece
  // for each piece, the number of its vertex among this device's vertices
  local<const std::uint32_t> rows;

  // Calls value(warp, vertex) for each piece whose vertex `active` accepts. Then calls update(lane,
  // edge, there, value) for each edge of that piece. All lanes of the warp make the same number of
  // these calls. For a lane without an edge, `there` is false and `edge` is any edge of the piece.
  template <class Block, class Active, class Value, class Update>
  INTERLACE_KERNEL void each(Block& block, const Active& active, const Value& value,
                             const Update& update) const {
    const std::uint64_t warps = block.threads() / block.warp_width();
    block.each_warp([&](auto warp) {
      std::uint64_t piece = block.index() * warps + warp.index();
      if (piece >= graph.rows) return;
      std::uint32_t next_row = warp.load(rows, piece);
      std::uint32_t next_begin = warp.load(graph.offsets, piece);
      std::uint32_t next_end = warp.load(graph.offsets, piece + 1);
      for (; piece < graph.rows; piece += block.count() * warps) {
        const std::uint64_t row = next_row;
        const std::uint32_t begin = next_begin;
        const std::uint32_t end = next_end;
        // The warp loads its next piece while it works on this piece.
        const std::uint64_t after = piece + block.count() * warps;
        if (after < graph.rows) {
          next_row = warp.load(rows, after);
          next_begin = warp.load(graph.offsets, after);
          next_end = warp.load(graph.offsets, after + 1);
        }
        if (!active(warp, row)) continue;
        const auto pushed = value(warp, row);
        warp.each([&](auto lane) {
          for (auto first : lane.range(begin, end, block.warp_width())) {
            const std::uint32_t e = first + lane.in_warp();
            update(lane, e < end ? e : begin, e < end, pushed);
          }
        });
      }
    });
  }

  // The grid for this device's part.
  grid shape() const { return {blocks_of(graph.rows), threads, 0}; }
  static std::uint64_t blocks_of(std::uint64_t pieces) {
    constexpr std::uint64_t each = threads / 32 * pieces_a_warp;
    return std::max<std::uint64_t>(1, (pieces + each - 1) / each);
  }

  template <class Node>
  static push_edges place(Node& node, std::uint32_t device, const std::uint64_t* offsets,
                          const std::uint32_t* columns, std::uint64_t begin, std::uint64_t end) {
    const entry_span edges = owned_entries(offsets, begin, end, device, "edges", 64);
    std::vector<std::uint32_t> rows;
    std::vector<std::uint32_t> firsts;
    for (std::uint64_t row = begin; row < end; ++row) {
      for (std::uint64_t e = offsets[row]; e < offsets[row + 1]; e += most_edges) {
        rows.push_back(static_cast<std::uint32_t>(row - begin));
        firsts.push_back(static_cast<std::uint32_t>(e - edges.first));
      }
    }
    firsts.push_back(static_cast<std::uint32_t>(edges.count));
    push_edges placed;
    placed.graph.rows = rows.size();
    placed.graph.first_row = begin;
    placed.graph.offsets = put(node, device, firsts);
    placed.graph.columns =
        put(node, device,
            std::vector<std::uint32_t>(columns + edges.first, columns + edges.first + edges.count));
    placed.rows = put(node, device, rows);
    return placed;
  }
};

// Gives each queue of update packets room for the most updates that a device has for an owner. For
// each window, each warp can leave one packet that is not full.
inline kernel::region_options with_queues_for_edges(kernel::region_options o,
                                                    const std::uint64_t* offsets,
                                                    const std::uint32_t* columns) {
  const std::vector<std::uint64_t>& cut = o.boundaries;
  update_queues queues;
  queues.packet_bytes = o.packet_bytes;
  const std::uint64_t packet = queues.capacity(sizeof(float));
  o.queued_updates = packet;
  for (std::size_t d = 0; d + 1 < cut.size(); ++d) {
    // updates[o + 1] is the number of updates of owner o. The last element counts the columns
    // beyond the last part, which `place` or the caller refuses.
    std::vector<std::uint64_t> updates(cut.size() + 1);
    for (std::uint64_t e = offsets[cut[d]]; e < offsets[cut[d + 1]]; ++e)
      ++updates[static_cast<std::size_t>(std::upper_bound(cut.begin(), cut.end(), columns[e]) -
                                         cut.begin())];
    if (o.update_windows == 1) updates[d + 1] = 0;  // a device does not pack its own updates
    std::uint64_t pieces = 0;
    for (std::uint64_t row = cut[d]; row < cut[d + 1]; ++row)
      pieces +=
          (offsets[row + 1] - offsets[row] + push_edges::most_edges - 1) / push_edges::most_edges;
    const std::uint64_t warps = push_edges::blocks_of(pieces) * (push_edges::threads / 32);
    for (const std::uint64_t u : updates)
      o.queued_updates = std::max(
          o.queued_updates, u + std::min(u, warps * std::max(o.update_windows, 1U)) * (packet - 1));
  }
  return o;
}

}  // namespace interlace::workload
