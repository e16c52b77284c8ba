// Library calls on the reference node and on the simulated node. The tests check the place of a
// call in the order of its stream, and its duration.
#include <gtest/gtest.h>

#include <string>

#include "../probes/sorted_sums.hpp"
#include "interlace/host/node.hpp"
#include "interlace/sim/node.hpp"
#include "sim/described.hpp"

namespace interlace::library_call_tests {
namespace {

using machine::protocol_kind;

constexpr std::uint64_t n = 5000;
constexpr std::uint32_t rounds = 3;

TEST(library_call, stands_in_the_stream_of_the_reference_node) {
  host::node node({.devices = 2, .warp_width = 32, .checks = true});
  for (std::uint32_t d = 0; d < 2; ++d) {
    const auto s = probe::make_sorted_sums(node, d, n);
    node.run([&] { probe::enqueue_sorted_sums(node, d, s, rounds); });
    EXPECT_EQ(node.download(s.out), probe::sorted_sums_reference(n, rounds));
  }
}

TEST(library_call, stands_in_the_stream_of_the_simulated_node) {
  sim::node node(test::meshed(2, protocol_kind::nvlink2), 2, [] {});
  std::vector<probe::sorted_sums> all;
  for (std::uint32_t d = 0; d < 2; ++d) all.push_back(probe::make_sorted_sums(node, d, n));
  const auto result = node.run([&] {
    for (std::uint32_t d = 0; d < 2; ++d) probe::enqueue_sorted_sums(node, d, all[d], rounds);
  });
  for (std::uint32_t d = 0; d < 2; ++d) {
    EXPECT_EQ(node.download(all[d].out), probe::sorted_sums_reference(n, rounds));
    std::vector<std::string> names;
    double last_end = 0;
    for (const auto& e : result.timeline) {
      if (e.device != d) continue;
      EXPECT_EQ(std::string(e.track), "kernel");
      EXPECT_GE(e.start_s, last_end);
      last_end = e.end_s;
      names.push_back(e.name);
    }
    ASSERT_EQ(names.size(), 4 * rounds);
    for (std::uint32_t k = 0; k < rounds; ++k) {
      EXPECT_EQ(names[4 * k], "kernel");
      EXPECT_EQ(names[4 * k + 1], "sort");
      EXPECT_EQ(names[4 * k + 2], "scan");
      EXPECT_EQ(names[4 * k + 3], "kernel");
    }
  }
}

kernel::library_call silent(std::uint64_t read, std::uint64_t written,
                            kernel::operation_counts operations) {
  kernel::library_call c;
  c.name = "silent";
  c.bytes_read = read;
  c.bytes_written = written;
  c.operations = operations;
  c.on_cpu = [] {};
  return c;
}

TEST(library_call, takes_the_time_of_its_memory_traffic_or_operations) {
  const auto m = test::meshed(1, protocol_kind::nvlink2);  // 4 units, 1 GHz, 200 GB/s, 1 us
  const double per_clock = 4 * 1e9;
  struct expected {
    kernel::library_call call;
    double seconds;
  };
  const std::vector<expected> cases = {
      {silent(0, 0, {}), 0},
      {silent(2'000'000, 1'000'000, {}), 3e6 / 200e9},
      {silent(64, 0, {.fp32 = 10'000'000}), 1e7 / (64 * per_clock)},
      {silent(64, 0, {.fp32 = 10'000'000, .fp64 = 6'000'000}), 6e6 / (32 * per_clock)},
      {silent(64, 0, {.integer = 10'000'000, .special = 5'000'000}), 5e6 / (16 * per_clock)},
      {silent(20'000'000, 0, {.fp32 = 10'000'000}), 2e7 / 200e9},
  };
  for (const expected& e : cases) {
    sim::node node(m, 1, [] {});
    EXPECT_NEAR(node.run([&] { node.call(0, e.call); }).time_s, 1e-6 + e.seconds, 1e-10);
    EXPECT_NEAR(node.run([&] {
                      for (int k = 0; k < 5; ++k) node.call(0, e.call);
                    })
                    .time_s,
                5 * (1e-6 + e.seconds), 1e-9);
  }
}

// Data that arrives during the call shares the memory bandwidth with the call.
TEST(library_call, shares_the_memory_with_transfers) {
  const auto m = test::meshed(2, protocol_kind::nvlink2);
  const auto call_time = [&](std::uint64_t copied) {
    sim::node node(m, 2, [] {});
    kernel::region_options o;
    o.boundaries = {0, 0, copied};  // all elements belong to device 1
    const auto region = node.create_region<std::uint8_t>(o);
    const auto result = node.run([&] {
      node.call(0, silent(20'000'000, 0, {}));
      node.exchange(region);
    });
    for (const auto& e : result.timeline) {
      if (e.name == "silent") return e.end_s - e.start_s;
    }
    return 0.0;
  };
  const double alone = call_time(0);
  const double shared = call_time(4'000'000);
  EXPECT_NEAR(alone, 101e-6, 1e-9);
  EXPECT_GT(shared, 1.005 * alone);
  EXPECT_LT(shared, 1.2 * alone);
}

TEST(library_call, names_what_is_missing) {
  const auto message_of = [](auto& node, std::uint32_t device, const kernel::library_call& c) {
    try {
      node.run([&] { node.call(device, c); });
    } catch (const model_error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  host::node on_host({.devices = 1});
  sim::node on_sim(test::meshed(1, protocol_kind::nvlink2), 1, [] {});
  auto c = silent(0, 0, {});
  EXPECT_EQ(message_of(on_host, 1, c), "a call of silent on device 1 of 1");
  EXPECT_EQ(message_of(on_sim, 1, c), "a call of silent on device 1 of 1");
  c.on_cpu = nullptr;
  EXPECT_EQ(message_of(on_host, 0, c), "a call of silent has no function for this kind of node");
  EXPECT_EQ(message_of(on_sim, 0, c), "a call of silent has no function for this kind of node");
}

}  // namespace
}  // namespace interlace::library_call_tests
