// Values go only to the devices that read them. The tests check that all readers get the values,
// and that no other device gets them.
#include "workload/shared/readers.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "each_node.hpp"
#include "interlace/base/errors.hpp"
#include "workload/random.hpp"
#include "workload/shared/als_sgd.hpp"
#include "workload/sssp.hpp"

namespace interlace::readers_tests {
namespace {

struct rows {
  std::vector<std::uint64_t> offsets{0};
  std::vector<std::uint32_t> columns;
  std::uint64_t count() const { return offsets.size() - 1; }
};

// Makes rows whose columns are mostly near the row. A device therefore needs only a few values of
// other devices.
rows nearby(std::uint32_t count, std::uint32_t reach, test::random_numbers& random) {
  rows r;
  for (std::uint32_t v = 0; v < count; ++v) {
    const std::uint32_t edges = random.below(6);
    for (std::uint32_t e = 0; e < edges; ++e) {
      const bool far = random.below(40) == 0;
      r.columns.push_back(far ? random.below(count)
                              : (v + count + random.below(2 * reach) - reach) % count);
    }
    r.offsets.push_back(r.columns.size());
  }
  return r;
}

std::vector<std::uint64_t> equal_parts(std::uint64_t n, std::uint32_t devices) {
  std::vector<std::uint64_t> cut;
  for (std::uint32_t d = 0; d <= devices; ++d) cut.push_back(n * d / devices);
  return cut;
}

bool names(const rows& r, std::uint64_t begin, std::uint64_t end, std::uint64_t column) {
  return std::any_of(r.columns.begin() + static_cast<std::ptrdiff_t>(r.offsets[begin]),
                     r.columns.begin() + static_cast<std::ptrdiff_t>(r.offsets[end]),
                     [&](std::uint32_t c) { return c == column; });
}

TEST(readers, are_those_whose_rows_name_a_column) {
  test::random_numbers random(1);
  for (std::uint32_t round = 0; round < 60; ++round) {
    const std::uint32_t n = 1 + random.below(90);
    const std::uint32_t devices = 1 + random.below(16);
    const std::uint32_t shift = random.below(3);
    const auto r = nearby(n, 1 + random.below(n), random);
    std::vector<std::uint64_t> cut;  // some parts are empty
    for (std::uint32_t d = 0; d <= devices; ++d) {
      cut.push_back(d == 0 ? 0 : d == devices ? n : random.below(n + 1));
    }
    std::sort(cut.begin(), cut.end());
    kernel::region_options options;
    for (const std::uint64_t b : cut) options.boundaries.push_back(b << shift);
    options = workload::sent_to_readers(
        options, workload::readers_of_columns(cut, r.offsets.data(), r.columns.data(), n), shift);
    const auto state = kernel::make_region_state(options, 4, devices);
    for (std::uint32_t owner = 0; owner < devices; ++owner) {
      for (std::uint32_t d = 0; d < devices; ++d) {
        std::vector<std::uint64_t> needed;
        for (std::uint64_t v = cut[owner]; v < cut[owner + 1]; ++v) {
          const bool reads = d != owner && names(r, cut[d], cut[d + 1], v);
          if (reads) needed.push_back(v);
          ASSERT_EQ(options.readers[v] >> d & 1, reads ? 1 : 0);
          ASSERT_EQ(state.receives(d, v << shift), reads || d == owner);
        }
        // A copy moves one range: from the first element that the receiver reads to the last one.
        std::vector<subscriber_range> ranges;
        for (const subscriber_range& s : options.subscribers[owner]) {
          if (s.devices == 1U << d) ranges.push_back(s);
        }
        ASSERT_EQ(ranges.size(), needed.empty() ? 0 : 1);
        if (needed.empty()) continue;
        EXPECT_EQ(ranges[0].begin, needed.front() << shift);
        EXPECT_EQ(ranges[0].end, (needed.back() + 1) << shift);
      }
    }
  }
}

TEST(readers, must_subscribe_to_what_they_read) {
  kernel::region_options options;
  options.boundaries = {0, 4, 8};
  options.readers = {0, 2, 0, 0, 1, 0, 0, 0};
  // A subscription to no device is refused.
  EXPECT_THROW(kernel::make_region_state(options, 4, 2), model_error);
  options.subscribers = {{{1, 2, 2}}, {{5, 8, 1}}};
  // The subscriptions leave out element 4.
  EXPECT_THROW(kernel::make_region_state(options, 4, 2), model_error);
  options.subscribers = {{{1, 2, 2}}, {{4, 8, 1}}};
  EXPECT_NO_THROW(kernel::make_region_state(options, 4, 2));
  options.reader_shift = 1;
  // The list of readers is twice as long as it must be.
  EXPECT_THROW(kernel::make_region_state(options, 4, 2), model_error);
}

struct paths {
  rows graph;
  std::vector<float> weights;
  workload::sssp_graph view() const {
    return {graph.count(), graph.offsets.data(), graph.columns.data(), weights.data()};
  }
  kernel::region_options options(std::uint32_t devices, kernel::mechanism how) const {
    kernel::region_options o;
    o.boundaries = equal_parts(graph.count(), devices);
    o.mechanism = how;
    o.chunk_bytes = 512;
    auto readers = workload::readers_of_columns(o.boundaries, graph.offsets.data(),
                                                graph.columns.data(), graph.count());
    return workload::sent_to_readers(std::move(o), std::move(readers));
  }
  std::vector<float> expected(std::uint32_t iterations) const {
    std::vector<float> distance(graph.count(), std::numeric_limits<float>::infinity());
    distance[0] = 0;
    for (std::uint32_t k = 0; k < iterations; ++k) {
      const auto before = distance;
      for (std::uint64_t v = 0; v < graph.count(); ++v) {
        for (std::uint64_t e = graph.offsets[v]; e < graph.offsets[v + 1]; ++e) {
          distance[v] = std::min(distance[v], before[graph.columns[e]] + weights[e]);
        }
      }
    }
    return distance;
  }
};

paths make_paths(std::uint32_t vertices) {
  test::random_numbers random(7);
  paths p{nearby(vertices, 30, random), {}};
  for (std::size_t e = 0; e < p.graph.columns.size(); ++e) {
    p.weights.push_back(static_cast<float>(1 + random.below(100)) / 16.0F);
  }
  return p;
}

constexpr std::uint32_t iterations = 12;

// `held` is the number of wrong elements among those that a device must have. `others` is the
// number of wrong elements among the rest.
struct differences {
  std::uint64_t held = 0;
  std::uint64_t others = 0;
};
template <class Work>
differences compare(const Work& work, const kernel::region_state& state,
                    const std::vector<float>& expected) {
  differences found;
  for (std::uint32_t d = 0; d < state.devices(); ++d) {
    const auto values = work.result(d);
    for (std::uint64_t v = 0; v < expected.size(); ++v) {
      if (values[v] != expected[v]) ++(state.receives(d, v) ? found.held : found.others);
    }
  }
  return found;
}

TEST(readers, have_what_they_read_under_every_mechanism) {
  const auto p = make_paths(900);
  const auto expected = p.expected(iterations);
  ASSERT_GT(std::count_if(expected.begin(), expected.end(), [](float x) { return x < 1e9F; }), 300);
  test::on_every_node([&](auto& node, std::uint32_t devices, std::uint32_t, auto how) {
    using node_type = std::remove_reference_t<decltype(node)>;
    const auto options = p.options(devices, how);
    workload::sssp<node_type, workload::row_warps> work(node, p.view(), options, 0);
    node.run([&] {
      for (std::uint32_t k = 0; k < iterations; ++k) work.enqueue_iteration(false);
    });
    const auto found = compare(work, kernel::make_region_state(options, 4, devices), expected);
    EXPECT_EQ(found.held, 0);
    // Some elements that a device does not read must have stayed unchanged.
    if (devices > 1) {
      EXPECT_GT(found.others, 0);
    }
  });
}

TEST(readers, get_a_store_each_and_no_other_device_does) {
  const auto p = make_paths(900);
  const auto options = p.options(3, kernel::mechanism::inline_stores);
  std::uint64_t sent = 0;
  for (const std::uint16_t r : options.readers)
    sent += static_cast<std::uint64_t>(std::popcount(r));
  sim::node node(test::meshed(3, machine::protocol_kind::nvlink2), 3, [] {});
  workload::sssp<sim::node, workload::row_warps> work(node, p.view(), options, 0);
  const auto ran = node.run([&] { work.enqueue_iteration(false); });
  EXPECT_EQ(ran.stores.stores, sent);
  EXPECT_EQ(ran.stores.bytes, 4 * sent);
  EXPECT_LT(sent, 900);  // if each value went to all devices, there would be 1800 stores
}

// A device reads an element to which it does not subscribe. The host node names this element. On
// the simulated node, the result is wrong.
TEST(readers, that_are_missing_are_found) {
  const auto p = make_paths(900);
  auto options = p.options(3, kernel::mechanism::inline_stores);
  const auto whole = kernel::make_region_state(options, 4, 3);
  const auto expected = p.expected(iterations);
  std::uint64_t missing = 0;  // a vertex of device 0 that device 1 reads and that can be reached
  while ((options.readers[missing] >> 1 & 1) == 0 || missing == 0 || expected[missing] > 1e9F) {
    ++missing;
  }
  options.readers[missing] = static_cast<std::uint16_t>(options.readers[missing] & ~2U);
  {
    host::node node({.devices = 3, .warp_width = 32, .checks = true});
    workload::sssp<host::node, workload::row_warps> work(node, p.view(), options, 0);
    std::string said;
    try {
      node.run([&] { work.enqueue_iteration(false); });
    } catch (const model_error& error) {
      said = error.what();
    }
    EXPECT_TRUE(said.ends_with("of device 1 reads element " + std::to_string(missing) +
                               " of region 0, to which the device does not subscribe"))
        << said;
  }
  sim::node node(test::meshed(3, machine::protocol_kind::nvlink2), 3, [] {});
  workload::sssp<sim::node, workload::row_warps> work(node, p.view(), options, 0);
  node.run([&] {
    for (std::uint32_t k = 0; k < iterations; ++k) work.enqueue_iteration(false);
  });
  EXPECT_GT(compare(work, whole, expected).held, 0);
}

// Elements form groups of sixteen, because the sixteen numbers of a factor are sent together.
TEST(readers, of_factors) {
  constexpr std::uint32_t rank = 16;
  constexpr std::uint32_t shift = 4;
  test::random_numbers random(3);
  const auto by_user = nearby(200, 12, random);
  rows by_item;
  std::vector<std::vector<std::uint32_t>> users(by_user.count());
  for (std::uint32_t u = 0; u < by_user.count(); ++u) {
    for (std::uint64_t e = by_user.offsets[u]; e < by_user.offsets[u + 1]; ++e) {
      users[by_user.columns[e]].push_back(u);
    }
  }
  for (const auto& of_item : users) {
    by_item.columns.insert(by_item.columns.end(), of_item.begin(), of_item.end());
    by_item.offsets.push_back(by_item.columns.size());
  }
  const std::vector<float> values(by_user.columns.size(), 3.0F);
  const workload::rating_matrix ratings{
      by_user.count(), by_item.count(),        by_user.offsets.data(), by_user.columns.data(),
      values.data(),   by_item.offsets.data(), by_item.columns.data(), values.data()};
  workload::factors start{std::vector<float>(200 * rank), std::vector<float>(200 * rank)};
  for (auto* side : {&start.users, &start.items}) {
    std::generate(side->begin(), side->end(), [&] { return random.unit(); });
  }
  // The expected factors come from one device. Every device that computes a row computes the same
  // numbers.
  workload::factors expected;
  test::on_every_node([&](auto& node, std::uint32_t devices, std::uint32_t, auto how) {
    const auto rows_cut = equal_parts(200, devices);
    kernel::region_options o;
    o.mechanism = how;
    o.chunk_bytes = 2048;
    for (const std::uint64_t b : rows_cut) o.boundaries.push_back(b * rank);
    const auto of = [&](const rows& by) {
      return workload::sent_to_readers(
          o, workload::readers_of_columns(rows_cut, by.offsets.data(), by.columns.data(), 200),
          shift);
    };
    const auto user_options = of(by_item);
    const auto item_options = of(by_user);
    workload::als_sgd_by_lane work(node, ratings, user_options, item_options, 0.05F, 0.05F, 1);
    work.reset(start);
    node.run([&] {
      for (int k = 0; k < 2; ++k) work.enqueue_iteration(false);
    });
    if (expected.users.empty()) {
      const auto [users_found, items_found] = work.factors(0);
      expected = {users_found, items_found};
    }
    for (std::uint32_t d = 0; d < devices; ++d) {
      const auto [users_found, items_found] = work.factors(d);
      const auto check = [&](const kernel::region_options& options, const auto& found,
                             const auto& wanted) {
        const auto state = kernel::make_region_state(options, 4, devices);
        for (std::uint64_t e = 0; e < found.size(); ++e) {
          if (state.receives(d, e)) {
            ASSERT_EQ(found[e], wanted[e]) << "device " << d << ", " << e;
          }
        }
      };
      check(user_options, users_found, expected.users);
      check(item_options, items_found, expected.items);
    }
  });
}

}  // namespace
}  // namespace interlace::readers_tests
