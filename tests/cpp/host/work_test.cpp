// The reference node counts the work of a launch. The tests compare these counts with counts made
// by hand and with the counts of the simulated node.
#include <gtest/gtest.h>

#include <vector>

#include "interlace/host/node.hpp"
#include "interlace/sim/node.hpp"
#include "sim/described.hpp"

namespace interlace::work_tests {
namespace {

// Each lane loads its element, and then loads the first element again. One lane in four stores.
struct scale_some {
  local<const float> in;
  local<float> out;
  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      const auto i = lane.global_index();
      if (i >= in.size) return;
      const float value = lane.load(in, i) * lane.load(in, 0);
      lane.compute({.fp32 = 1, .integer = 4, .special = 2});
      if (i % 4 == 0) lane.store(out, i, value);
    });
  }
};

TEST(launch_work, sectors_and_operations_of_a_kernel) {
  host::node node({.devices = 1, .warp_width = 32, .checks = true});
  const auto in = node.allocate<float>(0, 1000);
  const auto out = node.allocate<float>(0, 1000);
  const auto result = node.run([&] {
    node.launch(0, scale_some{in, out}, {8, 128, 0});
    node.launch(0, scale_some{in, out}, {1, 128, 0});
  });
  ASSERT_EQ(result.work.size(), 2U);
  const auto& all = result.work[0];
  EXPECT_EQ(all.name, "scale_some");
  EXPECT_EQ(all.device, 0U);
  EXPECT_EQ(all.loaded_bytes, 4000U);  // 125 sectors
  EXPECT_EQ(all.stored_bytes, 4000U);  // each sector has a stored element
  EXPECT_EQ(all.touched_bytes, 8000U);
  EXPECT_EQ(all.operations.fp32, 1000U);
  EXPECT_EQ(all.operations.fp64, 0U);
  EXPECT_EQ(all.operations.integer, 4000U);
  EXPECT_EQ(all.operations.special, 2000U);
  EXPECT_EQ(result.work[1].loaded_bytes, 512U);
  EXPECT_EQ(result.work[1].operations.fp32, 128U);
  EXPECT_TRUE(node.run([] {}).work.empty());
}

// Adds up numbers through a replicated view, in shared memory, and in a reduction that has two
// copies.
struct add_up {
  replicated<float> data;
  reduced<float> total;
  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    const auto held = shared<float>(block, 64);
    auto sum = lane_state<float>(block);
    block.each([&](auto lane) {
      const auto i = lane.global_index();
      lane.store(held, lane.index(), lane.load(data, i));
      lane.store(data, i, 2.0F);
    });
    block.each([&](auto lane) { sum[lane] = lane.load(held, lane.index()); });
    block.each_warp([&](auto warp) {
      const float all = warp.sum(sum);
      warp.each([&](auto lane) {
        if (lane.in_warp() == 0) lane.reduce(total, 0, all);
      });
    });
  }
};

TEST(launch_work, of_regions_and_reductions) {
  host::node node({.devices = 2, .warp_width = 32, .checks = true});
  kernel::region_options o;
  o.boundaries = {0, 256, 512};
  const auto data = node.create_region<float>(o);
  node.set_front(data, std::vector<float>(512, 1.0F));
  const auto total = node.create_reduction<float, combine::add>(1, 2);
  const auto result = node.run([&] {
    node.launch(0, add_up{node.view(data, 0), node.view(total, 0)}, {4, 64, 256});
  });
  ASSERT_EQ(result.work.size(), 1U);
  const auto& work = result.work[0];
  // The kernel loads and stores 256 floats: the loads are in the front, and the stores are in the
  // back. It also loads and stores the two copies of the sum, which are in one sector of 32 bytes.
  EXPECT_EQ(work.loaded_bytes, 1024U + 32U);
  EXPECT_EQ(work.stored_bytes, 1024U + 32U);
  EXPECT_EQ(work.touched_bytes, 2048U + 32U);
  EXPECT_EQ(work.operations.fp32, 4 * 64 * 5U);  // 4 * 64 lanes, and five steps of a butterfly
}

TEST(launch_work, library_calls_say_theirs) {
  host::node node({.devices = 1, .warp_width = 32, .checks = true});
  kernel::library_call call;
  call.name = "sort";
  call.bytes_read = 4096;
  call.bytes_written = 1024;
  call.operations.integer = 77;
  call.on_cpu = [] {};
  const auto result = node.run([&] { node.call(0, call); });
  ASSERT_EQ(result.work.size(), 1U);
  EXPECT_EQ(result.work[0].name, "sort");
  EXPECT_EQ(result.work[0].loaded_bytes, 4096U);
  EXPECT_EQ(result.work[0].stored_bytes, 1024U);
  EXPECT_EQ(result.work[0].touched_bytes, 4096U);
  EXPECT_EQ(result.work[0].operations.integer, 77U);
}

TEST(launch_work, operations_are_those_that_the_simulated_node_counts) {
  host::node counted({.devices = 1, .warp_width = 32, .checks = true});
  sim::node traced(test::meshed(1, machine::protocol_kind::nvlink2), 1, [] {});
  const auto launch_on = [](auto& node, auto launch) {
    kernel::region_options o;
    o.boundaries = {0, 512};
    const auto data = node.template create_region<float>(o);
    node.set_front(data, std::vector<float>(512, 1.0F));
    const auto total = node.template create_reduction<float, combine::add>(1, 2);
    launch(add_up{node.view(data, 0), node.view(total, 0)}, grid{8, 64, 256});
    launch(scale_some{node.template allocate<float>(0, 500), node.template allocate<float>(0, 500)},
           grid{5, 128, 0});
  };
  kernel::trace_totals totals;
  launch_on(traced,
            [&](const auto& kernel, grid shape) { totals += traced.trace(0, kernel, shape); });
  kernel::operation_counts sum;
  launch_on(counted, [&](const auto& kernel, grid shape) {
    const auto work = counted.run([&] { counted.launch(0, kernel, shape); }).work;
    sum.fp32 += work.at(0).operations.fp32;
    sum.integer += work.at(0).operations.integer;
    sum.special += work.at(0).operations.special;
  });
  EXPECT_EQ(totals.operations[0], sum.fp32);
  EXPECT_EQ(totals.operations[2], sum.integer);
  EXPECT_EQ(totals.operations[3], sum.special);
  EXPECT_GT(sum.fp32, 0U);
}

}  // namespace
}  // namespace interlace::work_tests
