// Compares shortest paths with Dijkstra's algorithm and with plain iterations.
#include "workload/sssp.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <queue>
#include <type_traits>
#include <utility>
#include <vector>

#include "each_node.hpp"
#include "workload/random.hpp"

namespace interlace::sssp_tests {
namespace {

using workload::edge_units;

constexpr float infinity = std::numeric_limits<float>::infinity();

struct weighted_graph {
  std::vector<std::uint64_t> offsets{0};
  std::vector<std::uint32_t> columns;
  std::vector<float> weights;

  std::uint64_t vertices() const { return offsets.size() - 1; }
  workload::sssp_graph view() const {
    return {vertices(), offsets.data(), columns.data(), weights.data()};
  }
};

// Makes a graph whose rows have very different lengths. No path leads to the last fifth of the
// vertices, and every ninth vertex has no in-edge. Weights are multiples of 1/64, so sums of
// weights are exact.
weighted_graph skewed(std::uint32_t vertices, std::uint32_t seed) {
  test::random_numbers random(seed);
  weighted_graph g;
  const std::uint32_t reached = vertices - vertices / 5;
  const auto length = [&](std::uint32_t v) -> std::uint32_t {
    constexpr std::uint32_t tile = edge_units::tile;
    if (v % 9 == 4) return 0;
    if (v == 50) return tile;
    if (v == 51) return tile + 1;
    if (v == 60) return 3 * tile;
    if (v == reached - 1) return 6 * tile + 77;
    if (v % 37 == 0) return edge_units::long_row + random.below(500);
    return random.below(12);
  };
  for (std::uint32_t v = 0; v < vertices; ++v) {
    const std::uint32_t edges = length(v);
    for (std::uint32_t e = 0; e < edges; ++e) {
      // In the part that paths can reach, the two ends of an edge are near each other, so that
      // paths have many edges.
      const std::uint32_t from = v < reached ? (v + 1 + random.below(400)) % reached
                                             : reached + random.below(vertices - reached);
      g.columns.push_back(from);
      g.weights.push_back(static_cast<float>(random.below(1000)) / 64.0F);
    }
    g.offsets.push_back(g.columns.size());
  }
  return g;
}

std::vector<double> dijkstra(const weighted_graph& g, std::uint32_t source) {
  struct arc {
    std::uint32_t to;
    double weight;
  };
  std::vector<std::vector<arc>> out(g.vertices());
  for (std::uint32_t v = 0; v < g.vertices(); ++v) {
    for (std::uint64_t e = g.offsets[v]; e < g.offsets[v + 1]; ++e) {
      out[g.columns[e]].push_back({v, g.weights[e]});
    }
  }
  std::vector<double> distance(g.vertices(), std::numeric_limits<double>::infinity());
  using entry = std::pair<double, std::uint32_t>;
  std::priority_queue<entry, std::vector<entry>, std::greater<>> open;
  distance[source] = 0;
  open.emplace(0.0, source);
  while (!open.empty()) {
    const auto [d, u] = open.top();
    open.pop();
    if (d > distance[u]) continue;
    for (const arc& a : out[u]) {
      if (d + a.weight >= distance[a.to]) continue;
      distance[a.to] = d + a.weight;
      open.emplace(distance[a.to], a.to);
    }
  }
  return distance;
}

// Makes one iteration. Returns the number of changed distances.
std::uint64_t relax(const weighted_graph& g, std::vector<float>& distance) {
  const auto before = distance;
  std::uint64_t changed = 0;
  for (std::uint64_t v = 0; v < g.vertices(); ++v) {
    for (std::uint64_t e = g.offsets[v]; e < g.offsets[v + 1]; ++e) {
      distance[v] = std::min(distance[v], before[g.columns[e]] + g.weights[e]);
    }
    if (distance[v] != before[v]) ++changed;
  }
  return changed;
}

kernel::region_options options_for(const weighted_graph& g, std::uint32_t devices,
                                   kernel::mechanism how) {
  kernel::region_options o;
  o.mechanism = how;
  o.split_ranges = 3;
  for (std::uint32_t d = 0; d <= devices; ++d) o.boundaries.push_back(g.vertices() * d / devices);
  return o;
}

template <class Node, class Work>
std::uint32_t iterate_to_the_end(Node& node, Work& work) {
  for (std::uint32_t k = 1;; ++k) {
    node.run([&] { work.enqueue_iteration(true); });
    if (work.residual() == 0 || k > 1000) return k;
  }
}

template <class Rows>
void find_the_shortest_paths() {
  const std::uint32_t source = 3;
  const auto g = skewed(400, 1);
  const auto expected = dijkstra(g, source);
  EXPECT_GT(std::count(expected.begin(), expected.end(), HUGE_VAL), g.vertices() / 5);
  test::on_every_node([&](auto& node, std::uint32_t devices, std::uint32_t, auto how) {
    using node_type = std::remove_reference_t<decltype(node)>;
    workload::sssp<node_type, Rows> work(node, g.view(), options_for(g, devices, how), source);
    const auto iterations = iterate_to_the_end(node, work);
    EXPECT_GT(iterations, 5U);
    for (std::uint32_t d = 0; d < devices; ++d) {
      const auto found = work.result(d);
      ASSERT_EQ(std::vector<double>(found.begin(), found.end()), expected) << "device " << d;
    }
  });
}

TEST(sssp, finds_the_shortest_paths) { find_the_shortest_paths<workload::edge_units>(); }
TEST(sssp, finds_the_shortest_paths_by_warps) { find_the_shortest_paths<workload::row_warps>(); }

// One lane of each warp stores the distance of a row.
TEST(sssp, warps_store_a_row_each) {
  const auto g = skewed(2000, 1);
  const auto machine = test::meshed(2, machine::protocol_kind::nvlink2);
  sim::node node(machine, 2, [] {});
  workload::sssp<sim::node, workload::row_warps> work(
      node, g.view(), options_for(g, 2, kernel::mechanism::inline_stores), 3);
  const auto stores = node.run([&] { work.enqueue_iteration(false); }).stores;
  EXPECT_EQ(stores.stores, g.vertices());
  EXPECT_EQ(stores.bytes, 4 * g.vertices());
}

TEST(sssp, every_iteration_is_that_of_plain_loops) {
  const std::uint32_t source = 1999 - 400 - 1;  // a vertex near the hub
  const auto g = skewed(2000, 2);
  for (const std::uint32_t devices : {1U, 3U}) {
    test::on_each_node(devices, 32, [&](auto& node) {
      workload::sssp work(node, g.view(), options_for(g, devices, kernel::mechanism::inline_stores),
                          source);
      for (int round = 0; round < 2; ++round) {
        std::vector<float> expected(g.vertices(), infinity);
        expected[source] = 0;
        for (int k = 0; k < 6; ++k) {
          const auto changed = relax(g, expected);
          node.run([&] { work.enqueue_iteration(k % 2 == 0); });
          if (k % 2 == 0) {
            EXPECT_EQ(work.residual(), static_cast<double>(changed));
          }
          for (std::uint32_t d = 0; d < devices; ++d) ASSERT_EQ(work.result(d), expected) << k;
        }
        work.reset();
      }
    });
  }
}

TEST(sssp, random_weights_are_within_rounding) {
  auto g = skewed(1500, 3);
  test::random_numbers random(4);
  for (float& w : g.weights) w = random.unit();
  g.weights[17] = infinity;  // an infinite weight has the same effect as no edge
  const auto expected = dijkstra(g, 0);
  test::on_each_node(2, 32, [&](auto& node) {
    workload::sssp work(node, g.view(), options_for(g, 2, kernel::mechanism::bulk_copy), 0);
    iterate_to_the_end(node, work);
    const auto found = work.result(1);
    for (std::uint64_t v = 0; v < g.vertices(); ++v) {
      if (std::isinf(expected[v])) {
        EXPECT_EQ(found[v], infinity);
      } else {
        EXPECT_NEAR(found[v], expected[v], 1e-6 * expected[v]);
      }
    }
  });
}

// The last block that works on a row joins the parts of the row. In this test, blocks run in many
// orders, with every number of parts.
TEST(sssp, parts_join_in_any_order) {
  struct counting_lane {
    std::vector<std::uint64_t>& words;
    std::uint64_t atomic_add(const local<std::uint64_t>&, std::uint32_t i, std::uint64_t v) const {
      return std::exchange(words[i], words[i] + v);
    }
    void store(const local<std::uint64_t>&, std::uint32_t i, std::uint64_t v) const {
      words[i] = v;
    }
    void compute(operation, std::uint32_t) const {}
  };
  test::random_numbers random(5);
  for (std::uint32_t parts = 1; parts < 40; ++parts) {
    std::vector<std::uint64_t> words(parts + 2, 0);
    std::vector<std::uint32_t> order(parts);
    for (std::uint32_t p = 0; p < parts; ++p) order[p] = p;
    for (int round = 0; round < 20; ++round) {
      for (std::uint32_t k = parts; k > 1; --k) std::swap(order[k - 1], order[random.below(k)]);
      std::uint32_t least = workload::path_min::identity();
      for (std::uint32_t k = 0; k < parts; ++k) {
        std::uint32_t value =
            random.below(8) == 0 ? workload::path_min::identity() : random.below(1000);
        least = std::min(least, value);
        const bool last =
            workload::path_min::join(counting_lane{words}, {}, {0, 2, order[k], parts}, value);
        ASSERT_EQ(last, k + 1 == parts) << parts;
        if (last) {
          EXPECT_EQ(value, least);
        }
      }
      EXPECT_EQ(words, std::vector<std::uint64_t>(parts + 2, 0));
    }
  }
}

TEST(sssp, refuses_what_it_cannot_use) {
  auto g = skewed(100, 6);
  host::node node({.devices = 1});
  const auto options = options_for(g, 1, kernel::mechanism::bulk_copy);
  EXPECT_THROW(workload::sssp(node, g.view(), options, 100), usage_error);
  g.weights[5] = -1;
  EXPECT_THROW(workload::sssp(node, g.view(), options, 0), usage_error);
  g.weights[5] = std::nanf("");
  EXPECT_THROW(workload::sssp(node, g.view(), options, 0), usage_error);
}

TEST(sssp, one_vertex) {
  const std::vector<std::uint64_t> offsets{0, 0};
  test::on_each_node(1, 32, [&](auto& node) {
    kernel::region_options o;
    o.boundaries = {0, 1};
    workload::sssp work(node, {1, offsets.data(), nullptr, nullptr}, o, 0);
    node.run([&] { work.enqueue_iteration(true); });
    EXPECT_EQ(work.result(0), std::vector<float>{0});
    EXPECT_EQ(work.residual(), 0);
  });
}

}  // namespace
}  // namespace interlace::sssp_tests
