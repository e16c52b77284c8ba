// The out-edges of vertices are cut into pieces. A warp handles each piece.
#include "workload/shared/push_edges.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "each_node.hpp"
#include "workload/random.hpp"

namespace interlace::push_edges_tests {
namespace {

using workload::push_edges;

// Counts how often each vertex of a device, and each edge of these vertices, is visited.
struct count_visits {
  static constexpr std::uint32_t threads = push_edges::threads;
  push_edges edges;
  local<std::uint32_t> of_edges;
  local<std::uint32_t> vertex_of;
  local<const std::uint32_t> active;
  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    edges.each(
        block, [&](const auto& warp, std::uint64_t row) { return warp.load(active, row) != 0; },
        [&](const auto&, std::uint64_t row) { return static_cast<std::uint32_t>(row); },
        [&](const auto& lane, std::uint32_t e, bool there, std::uint32_t row) {
          if (!there) return;
          lane.atomic_add(of_edges, e, 1U);
          lane.store(vertex_of, e, row);
        });
  }
};

TEST(push_edges, pieces_cover_each_edge_of_active_vertices_once) {
  test::random_numbers random(1);
  std::vector<std::uint64_t> offsets{0};
  constexpr std::uint64_t vertices = 300;
  for (std::uint64_t v = 0; v < vertices; ++v) {
    std::uint64_t edges = v % 5 == 0 ? 0 : random.below(40);
    if (v == 120) edges = 8 * push_edges::most_edges;
    if (v == 200) edges = 5000;
    offsets.push_back(offsets.back() + edges);
  }
  const std::vector<std::uint32_t> columns(offsets.back(), 1);
  constexpr std::uint64_t begin = 100;
  constexpr std::uint64_t end = 280;
  const std::uint64_t count = offsets[end] - offsets[begin];
  test::on_each_node(1, 32, [&](auto& node) {
    const push_edges placed =
        push_edges::place(node, 0, offsets.data(), columns.data(), begin, end);
    // These nodes have host memory, so the test can read it.
    const auto& offset = placed.graph.offsets;
    const std::vector<std::uint32_t> firsts(offset.data, offset.data + offset.size);
    ASSERT_EQ(firsts.size(), placed.graph.rows + 1);
    for (std::size_t p = 0; p + 1 < firsts.size(); ++p) {
      EXPECT_GT(firsts[p + 1], firsts[p]);
      EXPECT_LE(firsts[p + 1] - firsts[p], push_edges::most_edges);
    }
    std::vector<std::uint32_t> active(end - begin, 1);
    active[7] = 0;
    const auto seen = node.template allocate<std::uint32_t>(0, count);
    const auto by = node.template allocate<std::uint32_t>(0, count);
    node.upload(seen, std::vector<std::uint32_t>(count, 0));
    node.upload(by, std::vector<std::uint32_t>(count, 0));
    const count_visits k{placed, seen, by, workload::put(node, 0, active)};
    node.run([&] { node.launch(0, k, placed.shape()); });
    const std::vector<std::uint32_t> times = node.download(seen);
    const std::vector<std::uint32_t> owners = node.download(by);
    for (std::uint64_t v = begin; v < end; ++v) {
      for (std::uint64_t e = offsets[v]; e < offsets[v + 1]; ++e) {
        const std::uint32_t wanted = active[v - begin];
        ASSERT_EQ(times[e - offsets[begin]], wanted) << "edge " << e;
        if (wanted == 0) continue;
        ASSERT_EQ(owners[e - offsets[begin]], v - begin) << "edge " << e;
      }
    }
  });
}

TEST(push_edges, a_part_without_edges_has_no_piece) {
  const std::vector<std::uint64_t> offsets(11, 0);
  test::on_each_node(1, 32, [&](auto& node) {
    const push_edges placed = push_edges::place(node, 0, offsets.data(), nullptr, 0, 10);
    EXPECT_EQ(placed.graph.rows, 0U);
    EXPECT_EQ(placed.shape().blocks, 1U);
  });
}

TEST(push_edges, queues_have_room_for_the_edges_to_each_owner) {
  // Device 0 has five edges to itself and two to device 1. Device 1 has four edges to device 0.
  const std::vector<std::uint64_t> offsets{0, 4, 7, 11, 11};
  const std::vector<std::uint32_t> columns{0, 1, 3, 0, 0, 1, 2, 0, 0, 1, 1};
  kernel::region_options options;
  options.boundaries = {0, 2, 4};
  options.update_windows = 1;
  update_queues queues;
  queues.packet_bytes = options.packet_bytes;
  const std::uint64_t packet = queues.capacity(sizeof(float));
  // Each of the 4 updates can be the first one of a packet.
  EXPECT_EQ(workload::with_queues_for_edges(options, offsets.data(), columns.data()).queued_updates,
            4 + 4 * (packet - 1));
  options.update_windows = 2;  // even updates of a device's own elements are packed
  EXPECT_EQ(workload::with_queues_for_edges(options, offsets.data(), columns.data()).queued_updates,
            5 + 5 * (packet - 1));
}

}  // namespace
}  // namespace interlace::push_edges_tests
