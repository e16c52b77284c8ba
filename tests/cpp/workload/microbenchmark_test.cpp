#include "workload/benchmark/microbenchmark.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>

#include "interlace/sim/node.hpp"
#include "sim/described.hpp"

namespace interlace::workload::microbenchmark_tests {
namespace {

TEST(microbenchmark, a_scattered_order_is_a_permutation) {
  for (const std::uint64_t n : {1U, 2U, 4U, 64U, 4096U}) {
    std::set<std::uint64_t> seen;
    const scattered_order order = scattered_order::of(n);
    for (std::uint64_t i = 0; i < n; ++i) seen.insert(order[i]);
    EXPECT_EQ(seen.size(), n);
    EXPECT_LT(*seen.rbegin(), n);
  }
}

TEST(microbenchmark, every_element_is_stored_once_to_every_other_device) {
  for (const std::uint32_t together : {0U, 1U, 4U}) {
    sim::node node(test::meshed(3, machine::protocol_kind::pcie4), 3, [] {});
    const auto result = run_stores<words_element<1>>(node, {2, 1024, together}).back();
    EXPECT_EQ(result.stores.bytes, 2U * 1024 * 4 * 2);
    EXPECT_EQ(result.stores.overwritten, 0U);
    EXPECT_GT(result.stores.wire, result.stores.bytes);
  }
}

TEST(microbenchmark, lanes_of_a_group_store_and_places_are_moved) {
  const store_request asked{.senders = 1, .elements = 1024, .together = 8, .lanes = 3, .shift = 6};
  EXPECT_EQ(asked.stored(), 384U);
  // The lanes store the elements 6, 7 and 0 of each group of eight elements.
  for (const std::uint64_t element : {0U, 6U, 7U, 8U, 1016U, 1023U}) {
    EXPECT_TRUE(asked.stores(element)) << element;
  }
  for (const std::uint64_t element : {1U, 5U, 1017U, 1021U}) {
    EXPECT_FALSE(asked.stores(element)) << element;
  }
  sim::node node(test::meshed(2, machine::protocol_kind::nvlink2), 2, [] {});
  const auto result = run_stores<words_element<1>>(node, asked).back();
  EXPECT_EQ(result.stores.bytes, 384U * 4);
  EXPECT_EQ(result.stores.overwritten, 0U);
  // The stores of one group in four are on two lines. Groups of a warp can share a packet.
  EXPECT_GT(result.stores.packets, 128U);
  EXPECT_LE(result.stores.packets, 128U + 32U);
}

TEST(microbenchmark, each_run_counts_what_its_epochs_store) {
  sim::node node(test::meshed(2, machine::protocol_kind::pcie4), 2, [] {});
  const auto runs = run_stores<words_element<1>>(node, {1, 1024, 1}, {.epochs = 3, .runs = 2});
  ASSERT_EQ(runs.size(), 2U);
  for (const auto& run : runs) EXPECT_EQ(run.stores.bytes, 3U * 1024 * 4);
  EXPECT_EQ(runs[0].time_s, runs[1].time_s);
  sim::node other(test::meshed(2, machine::protocol_kind::pcie4), 2, [] {});
  const double once_s = run_stores<words_element<1>>(other, {1, 1024, 1}).back().time_s;
  EXPECT_GT(runs[0].time_s, 2 * once_s);
  EXPECT_LE(runs[0].time_s, 3 * once_s);
}

// With a switch, each device has one link. Stores of all other devices could compete for this link.
TEST(microbenchmark, devices_that_store_to_each_other_take_as_long_as_one) {
  constexpr std::uint32_t gpus = 4;
  machine::machine m = test::meshed(gpus, machine::protocol_kind::nvlink2);
  m.links.erase(m.links.begin() + gpus, m.links.end());
  m.switches.push_back({"switch", 100'000});
  for (std::uint32_t d = 0; d < gpus; ++d) {
    m.links[d].a = {machine::endpoint_kind::gpu, d};
    m.links[d].b = {machine::endpoint_kind::network_switch, 0};
  }
  const auto seconds = [&](std::uint32_t senders) {
    sim::node node(m, gpus, [] {});
    return run_stores<words_element<4>>(node, {senders, 4096, 0}).back().time_s;
  };
  EXPECT_LT(seconds(gpus), 1.15 * seconds(1));
}

TEST(microbenchmark, more_blocks_copy_faster) {
  const auto seconds = [](std::uint32_t blocks) {
    sim::node node(test::meshed(2, machine::protocol_kind::nvlink2), 2, [] {});
    return run_copy<words_element<4>>(node, 4096, blocks, 1, 4096).back().time_s;
  };
  EXPECT_LT(seconds(4), seconds(1));
}

// Each block runs on one compute unit. If the machine states a rate of stores for each compute
// unit, a block stores at most at this rate.
TEST(microbenchmark, a_block_copies_no_faster_than_its_stores_leave) {
  machine::machine m = test::meshed(2, machine::protocol_kind::nvlink2);
  constexpr std::uint64_t elements = 1U << 15U;
  const auto rate = [&](std::uint32_t blocks) {
    sim::node node(m, 2, [] {});
    const auto found = run_copy<words_element<4>>(node, elements, blocks, 2, 4096);
    return static_cast<double>(2 * elements * sizeof(words_element<4>)) / found.back().time_s;
  };
  const double unlimited = rate(1);
  m.gpu.store_bytes_per_s = unlimited / 4;
  EXPECT_NEAR(rate(1) / (unlimited / 4), 1, 0.03);
  EXPECT_NEAR(rate(2) / (unlimited / 2), 1, 0.06);
}

TEST(microbenchmark, copies_go_over_an_array_that_stays_in_the_l2) {
  EXPECT_EQ(workload::copy_rounds(16), 1U);
  EXPECT_EQ(workload::copy_rounds(workload::copied_at_once), 1U);
  EXPECT_EQ(workload::copy_rounds(4 * workload::copied_at_once), 4U);
  EXPECT_THROW((void)workload::copy_rounds(4 * workload::copied_at_once + 16), usage_error);
  sim::node node(test::meshed(2, machine::protocol_kind::nvlink2), 2, [] {});
  const double once_s = run_copy<words_element<4>>(node, 4096, 4, 1, 4096).back().time_s;
  const double twice_s = run_copy<words_element<4>>(node, 4096, 4, 2, 4096).back().time_s;
  EXPECT_GT(twice_s, 1.5 * once_s);
  EXPECT_LT(twice_s, 2 * once_s);
}

TEST(microbenchmark, loads_come_from_the_other_device) {
  sim::node node(test::meshed(2, machine::protocol_kind::nvlink2), 2, [] {});
  const auto result = run_loads<words_element<1>>(node, 4096, 4096).back();
  // Each of two runs counts one request for each load that misses the L1.
  constexpr std::uint32_t lines = 4096 * 4 / 128;
  EXPECT_GT(result.remote_transactions, 2U * lines);
  EXPECT_LE(result.remote_transactions, 2U * 4096);
}

TEST(microbenchmark, refuses_what_it_cannot_scatter) {
  sim::node node(test::meshed(2, machine::protocol_kind::nvlink2), 2, [] {});
  EXPECT_THROW(run_stores<words_element<1>>(node, {1, 1000, 1}), usage_error);
  EXPECT_THROW(run_stores<words_element<1>>(node, {3, 1024, 1}), usage_error);
  EXPECT_THROW(run_stores<words_element<1>>(node, {1, 1024, 3}), usage_error);
  EXPECT_THROW(run_stores<words_element<1>>(node, {1, 2, 4}), usage_error);
  EXPECT_THROW(run_stores<words_element<1>>(node, {1, 1024, 4, 5}), usage_error);
  EXPECT_THROW(run_stores<words_element<1>>(node, {1, 1024, 0, 1}), usage_error);
  EXPECT_THROW(run_stores<words_element<1>>(node, {1, 1024, 0, 0, 1}), usage_error);
  EXPECT_THROW(run_stores<words_element<1>>(node, {1, 1024, 4, 0, 1025}), usage_error);
  EXPECT_THROW(run_loads<words_element<1>>(node, 512, 4096), usage_error);
}

}  // namespace
}  // namespace interlace::workload::microbenchmark_tests
