// Updates of partitioned arrays, on the host node and on the simulated node, with every mechanism
// that partitions can have. The tests compare the results with a plain loop that makes the same
// updates.
#include "interlace/kernel/partition.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "../probes/scattered_updates.hpp"
#include "each_node.hpp"
#include "interlace/base/errors.hpp"

namespace interlace::partition_tests {
namespace {

using kernel::mechanism;

using probes::scattered_updates;

template <class T, combine Op>
using scatter = probes::scattered_updates_kernel<T, Op>;

template <class Body>
void under_each_mechanism(const Body& body) {
  for (const kernel::mechanism_row& row : kernel::mechanism_rows) {
    if (!kernel::takes_updates(row.value) || row.not_on_sim != nullptr) continue;
    SCOPED_TRACE(row.name);
    body(row.value);
  }
}

template <class T, combine Op>
void check(std::uint32_t devices, std::uint32_t width, std::uint64_t size, std::uint64_t count,
           kernel::region_options options = {}) {
  under_each_mechanism([&](mechanism how) {
    const kernel::mechanism_row& row = kernel::row_of(how);
    if (Op == combine::store && row.updates_partials) return;
    // Mechanisms that do not pack updates ignore these options.
    if ((options.queued_updates != 0 || options.update_windows > 1) && !row.packs_updates) return;
    const scattered_updates<T, Op> made(devices, size, count, 3);
    options.mechanism = how;
    for (const bool by_warps : {false, true}) {
      test::on_each_node(devices, width, [&](auto& node) {
        EXPECT_EQ(made.run(node, options, 3, by_warps), made.expected(3));
      });
    }
  });
}

TEST(partition, updates_of_each_operation_reach_their_owner_once) {
  check<std::uint64_t, combine::bit_xor>(3, 32, 1000, 3000);
  check<std::uint64_t, combine::add>(4, 64, 1000, 2000);
  check<std::uint32_t, combine::add>(2, 32, 777, 2000);
  check<std::int32_t, combine::min>(3, 32, 500, 2000);
  check<std::int32_t, combine::max>(3, 32, 500, 2000);
  check<std::uint32_t, combine::bit_or>(3, 32, 500, 2000);
  check<std::uint32_t, combine::store>(3, 32, 500, 2000);
}

// The numbers are whole, so their sums are exact in any order.
TEST(partition, floating_point_updates_are_combined) {
  check<float, combine::add>(3, 32, 300, 1500);
  check<double, combine::add>(2, 32, 300, 1500);
  check<float, combine::min>(3, 32, 300, 1500);
  check<double, combine::max>(3, 32, 300, 1500);
}

TEST(partition, a_minimum_keeps_infinity) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ((combine_identity<float, combine::min>()), infinity);
  EXPECT_EQ((combine_identity<double, combine::max>()), -infinity);
  EXPECT_EQ((combine_identity<std::int32_t, combine::max>()),
            std::numeric_limits<std::int32_t>::min());
}

TEST(partition, one_device_and_devices_without_elements_work) {
  check<std::uint64_t, combine::bit_xor>(1, 32, 100, 500);
  check<std::uint64_t, combine::bit_xor>(4, 32, 3, 500);
}

TEST(partition, small_queues_and_packets_lose_nothing) {
  kernel::region_options options;
  for (const std::uint32_t packet_bytes : {128U, 256U, 4096U}) {
    for (const bool combines : {false, true}) {
      options.packet_bytes = packet_bytes;
      options.queued_updates = 50;
      options.combine_in_packets = combines;
      check<std::uint64_t, combine::add>(3, 32, 400, 1200, options);
      check<std::uint32_t, combine::store>(3, 32, 400, 1200, options);
    }
  }
}

TEST(partition, windows_lose_nothing) {
  kernel::region_options options;
  for (const std::uint32_t windows : {2U, 5U, 7U}) {
    for (const std::uint32_t packet_bytes : {128U, 512U}) {
      options.update_windows = windows;
      options.packet_bytes = packet_bytes;
      check<std::uint64_t, combine::add>(3, 32, 1000, 3000, options);
      check<std::uint32_t, combine::store>(4, 64, 500, 3000, options);
    }
  }
  options.queued_updates = 50;
  check<std::uint32_t, combine::bit_xor>(3, 32, 1000, 3000, options);
}

TEST(partition, windows_have_powers_of_2) {
  const auto windows = [](std::uint64_t elements, std::uint32_t devices, std::uint32_t asked) {
    kernel::region_options o;
    o.mechanism = mechanism::packed;
    o.update_windows = asked;
    for (std::uint32_t d = 0; d <= devices; ++d) o.boundaries.push_back(elements * d);
    return kernel::make_partition_state(o, 4, combine::add, devices).update_windows;
  };
  EXPECT_EQ(windows(1000, 2, 1), 1U);
  EXPECT_EQ(windows(1000, 2, 5), 4U);  // windows of 256 elements
  EXPECT_EQ(windows(3, 2, 15), 3U);
  EXPECT_THROW(windows(1000, 4, 8), usage_error);  // 32 packets for each warp are too many
  EXPECT_EQ(windows(1000, 4, 0), 1U);
}

TEST(partition, windows_leave_room_in_the_cache) {
  const auto windows = [](std::uint64_t elements, std::uint32_t devices, std::uint64_t cache) {
    kernel::region_options o;
    for (std::uint32_t d = 0; d <= devices; ++d) o.boundaries.push_back(elements * d);
    return kernel::windows_in_cache(o, 8, cache);
  };
  EXPECT_EQ(windows(1024, 2, 8192), 1U);
  EXPECT_EQ(windows(1025, 2, 8192), 3U);  // windows of 512 elements
  // A warp has 8 KiB for its packets. Eight windows for each of two devices need 16 packets of 512
  // bytes, so more windows are not possible.
  EXPECT_EQ(windows(4000, 2, 8192), 8U);
  EXPECT_EQ(windows(4000, 4, 8192), 4U);  // windows of 1024 elements need the whole cache
  EXPECT_EQ(windows(5000, 4, 8192), 1U);
  EXPECT_EQ(windows(2048, 2, 13600), 4U);  // a window of 1024 elements takes more than 60 %
  EXPECT_EQ(windows(2048, 2, 13700), 2U);
  EXPECT_EQ(windows(9000, 2, 0), 1U);  // the size of the cache is unknown
}

TEST(partition, packets_that_do_not_fit_a_block_are_refused) {
  kernel::region_options o;
  o.mechanism = mechanism::packed;
  o.update_windows = 8;
  o.boundaries = {0, 1000, 2000};
  const kernel::region_state s = kernel::make_partition_state(o, 4, combine::add, 2);
  // Each of 8 warps has 16 packets of 512 bytes and a head of 128 bytes.
  constexpr std::uint64_t packets = 8 * (128 + 16 * 512);
  EXPECT_NO_THROW(kernel::check_packing(s, {1, 256, 1000}, 32, packets + 1000, 0));
  try {
    kernel::check_packing(s, {1, 256, 1000}, 32, packets + 999, 3);
    FAIL() << "nothing is refused";
  } catch (const usage_error& e) {
    const std::string said = e.what();
    EXPECT_NE(said.find("66560 bytes of shared memory"), std::string::npos) << said;
    EXPECT_NE(said.find("a block of GPU 3 has 67559 bytes"), std::string::npos) << said;
  }
}

// Returns the counts of device 1. Half of its updates go to `hot` elements of device 0.
update_counts counted(std::uint64_t hot, const kernel::region_options& options) {
  const scattered_updates<std::uint64_t, combine::add> made(2, 100000, 20000, hot);
  host::node node({.devices = 2, .warp_width = 32, .checks = true});
  kernel::region_options o = options;
  o.mechanism = mechanism::packed;
  o.boundaries = made.boundaries;
  const auto table = node.create_partition<std::uint64_t, combine::add>(o);
  const auto places = node.allocate<std::uint64_t>(1, made.elements[1].size());
  const auto numbers = node.allocate<std::uint64_t>(1, made.elements[1].size());
  node.upload(places, made.elements[1]);
  node.upload(numbers, made.values[1]);
  node.launch(1, scatter<std::uint64_t, combine::add>{node.view(table, 1), places, numbers, 100},
              {2, 128}, table);
  return node.counts(table, 1);
}

// Counts up every element whose number is a multiple of 3.
struct every_third {
  partitioned<std::uint32_t, combine::add> counts;
  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      for (auto k : lane.range(lane.global_index(), counts.size, lane.global_count()))
        lane.update_if(k % 3 == 0, counts, k, 1U);
    });
  }
};

TEST(partition, an_update_without_its_condition_changes_nothing) {
  under_each_mechanism([](mechanism how) {
    test::on_each_node(2, 32, [&](auto& node) {
      kernel::region_options options;
      options.mechanism = how;
      options.boundaries = {0, 150, 300};
      const auto counts = node.template create_partition<std::uint32_t, combine::add>(options);
      for (std::uint32_t d = 0; d < 2; ++d)
        node.set_part(counts, d, std::vector<std::uint32_t>(150, 0));
      node.run([&] {
        for (std::uint32_t d = 0; d < 2; ++d)
          node.launch(d, every_third{node.view(counts, d)}, {2, 64}, counts);
        node.exchange(counts);
      });
      for (std::uint32_t d = 0; d < 2; ++d) {
        const std::vector<std::uint32_t> part = node.part(counts, d);
        for (std::uint32_t i = 0; i < 150; ++i) EXPECT_EQ(part[i], i % 3 == 0 ? 2U : 0U) << i;
      }
    });
  });
}

TEST(partition, a_packet_carries_many_updates) {
  kernel::region_options options;
  const auto counts = counted(100000, options);
  update_queues queues;
  queues.packet_bytes = options.packet_bytes;
  ASSERT_GT(counts.remote, 9000U);
  EXPECT_EQ(counts.without_room, 0U);
  // At the end, each of the 8 warps may have one packet that is not full.
  EXPECT_LE(counts.packets, counts.remote / queues.capacity(8) + 8);
  EXPECT_LT(static_cast<double>(counts.packet_bytes), 13.5 * static_cast<double>(counts.remote));
}

TEST(partition, updates_of_one_element_leave_together) {
  kernel::region_options options;
  const auto hot = counted(3, options);
  const auto spread = counted(100000, options);
  EXPECT_GT(hot.combined, hot.remote / 2);
  EXPECT_LT(spread.combined, spread.remote / 50);
  options.combine_in_packets = false;
  const auto apart = counted(3, options);
  EXPECT_EQ(apart.combined, 0U);
  EXPECT_GT(apart.packet_bytes, 2 * hot.packet_bytes);
}

TEST(partition, an_index_beyond_the_array_names_block_and_lane) {
  test::on_each_node(2, 32, [](auto& node) {
    kernel::region_options options;
    options.mechanism = mechanism::inline_stores;
    options.boundaries = {0, 50, 100};
    const auto table = node.template create_partition<std::uint32_t, combine::add>(options);
    for (std::uint32_t d = 0; d < 2; ++d) {
      node.set_part(table, d, std::vector<std::uint32_t>(50, 1));
    }
    const auto places = node.template allocate<std::uint64_t>(1, 200);
    const auto numbers = node.template allocate<std::uint32_t>(1, 200);
    std::vector<std::uint64_t> beyond(200, 3);
    beyond[140] = 100;
    node.upload(places, beyond);
    node.upload(numbers, std::vector<std::uint32_t>(200, 1));
    try {
      node.run([&] {
        node.launch(1,
                    scatter<std::uint32_t, combine::add>{node.view(table, 1), places, numbers, 1},
                    {2, 128}, table);
        node.exchange(table);
      });
      FAIL() << "the update was made";
    } catch (const model_error& e) {
      EXPECT_STREQ(e.what(),
                   "lane 12 of block 1 of device 1 updates element 100 of a partitioned array of "
                   "100");
    }
  });
}

void expect_refused(const kernel::region_options& options, combine operation,
                    const std::string& part) {
  try {
    kernel::make_partition_state(options, 8, operation, 2);
    FAIL() << "accepted";
  } catch (const usage_error& e) {
    EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
  }
}

TEST(partition, has_queues_of_a_given_size) {
  kernel::region_options options;
  options.boundaries = {0, 50, 100};
  options.mechanism = mechanism::packed;
  options.queued_updates = 1'000'000;
  options.queue_bytes = 5000;
  EXPECT_EQ(kernel::make_partition_state(options, 8, combine::add, 2).queued_packets, 9U);
  options.queue_bytes = 0;
  EXPECT_EQ(kernel::make_partition_state(options, 8, combine::add, 2).queued_packets, 25'000U);
}

TEST(partition, refuses_what_it_cannot_move) {
  kernel::region_options options;
  options.boundaries = {0, 50, 100};
  options.mechanism = mechanism::polling;
  expect_refused(options, combine::add,
                 "polling cannot send updates of partitioned arrays; use inline");
  options.mechanism = mechanism::bulk_copy;
  expect_refused(options, combine::store, "stores leave nothing to combine");
  options.mechanism = mechanism::packed;
  options.packet_bytes = 100;
  expect_refused(options, combine::add,
                 "packets of 100 bytes are not possible; give a multiple of 128");
  options.packet_bytes = 512;
  options.queue_bytes = 500;
  expect_refused(options, combine::add,
                 "a queue of 500 bytes has no room for a packet of 512 bytes; take larger queues");
  options.queue_bytes = 0;
  options.boundaries = {0, 5'000'000'000, 6'000'000'000};
  expect_refused(options, combine::add, "device 0 owns 5000000000 elements");
}

TEST(partition, regions_refuse_packed) {
  host::node node({.devices = 2});
  kernel::region_options options;
  options.boundaries = {0, 50, 100};
  options.mechanism = mechanism::packed;
  EXPECT_THROW(node.create_region<float>(options), usage_error);
}

}  // namespace
}  // namespace interlace::partition_tests
