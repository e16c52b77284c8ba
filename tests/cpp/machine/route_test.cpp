#include "machine/route.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <vector>

#include "machine/sample.hpp"

namespace interlace::machine::route_tests {
namespace {

using way = std::vector<hop>;

TEST(route, to_itself_is_empty) {
  const machine mesh = make_mesh(2);
  EXPECT_EQ(route(mesh, gpu_end(1), gpu_end(1)), way{});
  EXPECT_EQ(route(mesh, host_end(), host_end()), way{});
}

TEST(route, prefers_the_direct_link) {
  const machine mesh = make_mesh(4);
  EXPECT_EQ(route(mesh, gpu_end(0), gpu_end(2)), (way{{1, true}}));
  EXPECT_EQ(route(mesh, gpu_end(2), gpu_end(0)), (way{{1, false}}));
  EXPECT_EQ(route(mesh, gpu_end(3), host_end()), (way{{9, true}}));
}

TEST(route, takes_the_faster_of_two_direct_links) {
  machine pair = make_machine(2);
  pair.links = {pcie_link(gpu_end(0), gpu_end(1)), make_link(gpu_end(1), gpu_end(0), 50e9)};
  EXPECT_EQ(route(pair, gpu_end(0), gpu_end(1)), (way{{1, false}}));
}

TEST(route, gpus_do_not_forward) {
  machine chain = make_machine(3);
  chain.links = {make_link(gpu_end(0), gpu_end(1), 50e9), make_link(gpu_end(1), gpu_end(2), 50e9)};
  EXPECT_EQ(route(chain, gpu_end(0), gpu_end(2)), std::nullopt);
  for (std::uint32_t index = 0; index < 3; ++index)
    chain.links.push_back(pcie_link(gpu_end(index), host_end()));
  EXPECT_EQ(route(chain, gpu_end(0), gpu_end(2)), (way{{2, true}, {4, false}}));
}

TEST(route, crosses_switches_and_host) {
  machine tree = make_machine(4);
  tree.switches = {{"plx0", 150'000}, {"plx1", 150'000}};
  for (std::uint32_t index = 0; index < 4; ++index)
    tree.links.push_back(pcie_link(gpu_end(index), switch_end(index / 2)));
  tree.links.push_back(pcie_link(switch_end(0), host_end()));
  tree.links.push_back(pcie_link(switch_end(1), host_end()));
  const auto far = route(tree, gpu_end(0), gpu_end(3));
  EXPECT_EQ(far, (way{{0, true}, {4, true}, {5, false}, {3, false}}));
  EXPECT_EQ(text(tree, gpu_end(0), *far),
            "gpu0 -pcie3-> plx0 -pcie3-> host -pcie3-> plx1 -pcie3-> gpu3");
  EXPECT_EQ(route(tree, gpu_end(0), gpu_end(1)), (way{{0, true}, {1, false}}));
}

TEST(route, takes_the_way_with_the_fastest_slowest_link) {
  machine two = make_machine(2);
  two.switches = {{"slow", 0}, {"fast", 0}};
  two.links = {
      make_link(gpu_end(0), switch_end(0), 100e9), make_link(switch_end(0), gpu_end(1), 10e9),
      make_link(gpu_end(0), switch_end(1), 40e9), make_link(switch_end(1), gpu_end(1), 40e9)};
  EXPECT_EQ(route(two, gpu_end(0), gpu_end(1)), (way{{2, true}, {3, true}}));
}

TEST(route, no_way_and_no_such_end) {
  const machine lonely = make_machine(2);
  EXPECT_EQ(route(lonely, gpu_end(0), gpu_end(1)), std::nullopt);
  EXPECT_EQ(route(lonely, gpu_end(0), switch_end(0)), std::nullopt);
  EXPECT_EQ(route(lonely, gpu_end(0), gpu_end(7)), std::nullopt);
}

// All simple routes of a machine, found by exhaustive search.
struct exhaustive {
  const machine& described;
  endpoint to;
  std::optional<way> best;
  way current;
  std::vector<endpoint> visited;

  double slowest(const way& steps) const {
    double rate = std::numeric_limits<double>::infinity();
    for (const hop& step : steps) rate = std::min(rate, described.links[step.link].bytes_per_s);
    return rate;
  }

  bool better(const way& left, const way& right) const {
    if (left.size() != right.size()) return left.size() < right.size();
    if (slowest(left) != slowest(right)) return slowest(left) > slowest(right);
    return std::lexicographical_compare(left.begin(), left.end(), right.begin(), right.end(),
                                        [](hop a, hop b) { return a.link < b.link; });
  }

  void from(endpoint at) {
    if (at == to) {
      if (!best || better(current, *best)) best = current;
      return;
    }
    if (!current.empty() && at.kind == endpoint_kind::gpu) return;
    visited.push_back(at);
    for (std::size_t index = 0; index < described.links.size(); ++index) {
      for (const bool forward : {true, false}) {
        const link& edge = described.links[index];
        if (!((forward ? edge.a : edge.b) == at)) continue;
        const endpoint next = forward ? edge.b : edge.a;
        if (std::find(visited.begin(), visited.end(), next) != visited.end()) continue;
        current.push_back({index, forward});
        from(next);
        current.pop_back();
      }
    }
    visited.pop_back();
  }
};

TEST(route, agrees_with_exhaustive_search_on_random_machines) {
  std::mt19937 random(20211);
  const auto below = [&](std::uint32_t limit) {
    return static_cast<std::uint32_t>(random() % limit);
  };
  int found = 0;
  for (int round = 0; round < 400; ++round) {
    machine made = make_machine(1 + below(5));
    made.switches.resize(below(4));
    const auto any_end = [&]() -> endpoint {
      const auto gpus = made.gpu_count;
      const auto switches = static_cast<std::uint32_t>(made.switches.size());
      const std::uint32_t pick = below(gpus + switches + 1);
      if (pick < gpus) return gpu_end(pick);
      return pick < gpus + switches ? switch_end(pick - gpus) : host_end();
    };
    for (std::uint32_t count = below(12); count > 0; --count) {
      const endpoint a = any_end();
      const endpoint b = any_end();
      if (!(a == b)) made.links.push_back(make_link(a, b, 10e9 * (1 + below(3))));
    }
    const endpoint start = any_end();
    exhaustive search{made, any_end(), {}, {}, {}};
    search.from(start);
    const auto chosen = route(made, start, search.to);
    ASSERT_EQ(chosen, search.best) << "round " << round;
    ASSERT_EQ(route(made, start, search.to), chosen);
    found += chosen && !chosen->empty();
    // The hops of the route must be connected.
    if (!chosen) continue;
    endpoint at = start;
    for (const hop& step : *chosen) {
      const link& edge = made.links[step.link];
      ASSERT_EQ(step.forward ? edge.a : edge.b, at);
      at = step.forward ? edge.b : edge.a;
    }
    ASSERT_EQ(at, search.to);
  }
  EXPECT_GT(found, 100);  // otherwise the random machines have too few routes
}

}  // namespace
}  // namespace interlace::machine::route_tests
