// Tests the sub-cores, the latencies of dependent operations, the registers and the code of a
// simulated GPU.
#include <gtest/gtest.h>

#include <cstdint>

#include "interlace/kernel/library_call.hpp"
#include "interlace/sim/node.hpp"
#include "sim/described.hpp"

namespace interlace::sim::sub_core_tests {

// Each lane makes `count` dependent operations.
template <std::uint32_t Registers>
struct chain {
  std::uint32_t count = 0;
  template <class Block>
  void operator()(Block& block) const {
    block.each([&](auto lane) { lane.compute(operation::fp32, count); });
  }
};

}  // namespace interlace::sim::sub_core_tests

namespace interlace {
template <std::uint32_t Registers>
inline constexpr compiled_kernel compiled_as<sim::sub_core_tests::chain<Registers>>{Registers, 100};
}  // namespace interlace

namespace interlace::sim::sub_core_tests {
namespace {

// One compute unit at 1 GHz, with 64 lanes.
machine::machine unit() {
  auto m = test::meshed(1, machine::protocol_kind::nvlink2);
  m.gpu.compute_units = 1;
  m.gpu.clock_hz = 1e9;
  m.gpu.kernel_launch_ps = 0;
  m.gpu.block_launch_ps = 0;
  m.gpu.issue.fp32 = 64;
  m.gpu.max_warps = 64;
  m.gpu.max_blocks = 32;
  return m;
}

template <std::uint32_t Registers = 0>
double clocks(const machine::machine& m, grid shape, std::uint32_t count) {
  node on(m, 1, [] {});
  return 1e9 * on.run([&] { on.launch(0, chain<Registers>{count}, shape); }).time_s;
}

TEST(sub_core, a_warp_has_only_its_own_lanes) {
  auto m = unit();
  EXPECT_NEAR(clocks(m, {1, 32, 0}, 1000), 500, 2);
  EXPECT_NEAR(clocks(m, {1, 128, 0}, 1000), 2000, 2);
  m.gpu.issue.sub_cores = 4;
  EXPECT_NEAR(clocks(m, {1, 32, 0}, 1000), 2000, 2);  // a sub-core has 16 lanes
  // With one warp on each of the four sub-cores, the time is the same.
  EXPECT_NEAR(clocks(m, {1, 128, 0}, 1000), 2000, 2);
  EXPECT_NEAR(clocks(m, {4, 32, 0}, 1000), 2000, 2);
  EXPECT_NEAR(clocks(m, {5, 32, 0}, 1000), 4000, 2);
}

TEST(sub_core, dependent_operations_wait_and_other_warps_fill_the_gap) {
  auto m = unit();
  m.gpu.issue.sub_cores = 4;
  m.gpu.issue.fp32_latency = 6;
  EXPECT_NEAR(clocks(m, {1, 32, 0}, 1000), 6000, 2);
  // Three warps of a sub-core are enough to use all of its lanes.
  EXPECT_NEAR(clocks(m, {1, 384, 0}, 1000), 6000, 2);
  EXPECT_NEAR(clocks(m, {1, 512, 0}, 1000), 8000, 2);
}

TEST(sub_core, registers_limit_the_warps_of_a_unit) {
  auto m = unit();
  m.gpu.issue.sub_cores = 4;
  m.gpu.issue.fp32_latency = 100;
  m.gpu.registers = 65536;
  const grid shape{16, 128, 0};
  EXPECT_NEAR(clocks<32>(m, shape, 100), 10'000, 20);  // all 64 warps fit at the same time
  // With 33 registers, which are rounded up to 40, only 12 warps fit on a sub-core.
  EXPECT_NEAR(clocks<33>(m, shape, 100), 20'000, 20);
  EXPECT_NEAR(clocks<128>(m, shape, 100), 40'000, 20);  // only 4 warps fit on a sub-core
  m.gpu.registers = 0;
  EXPECT_NEAR(clocks<128>(m, shape, 100), 10'000, 20);
}

TEST(sub_core, a_kernel_waits_for_its_code) {
  auto m = unit();
  m.gpu.instruction_ps = 2000;
  // 500 ns to compute, 200 ns to fetch 100 instructions
  EXPECT_NEAR(clocks<32>(m, {1, 32, 0}, 1000), 700, 2);
}

struct barriers {
  std::uint32_t count = 0;
  template <class Block>
  void operator()(Block& block) const {
    for (std::uint32_t k = 0; k < count; ++k) block.each([](auto) {});
  }
};

TEST(sub_core, a_barrier_takes_longer_with_more_warps) {
  auto m = unit();
  m.gpu.issue.barrier_latency = 10;
  m.gpu.issue.barrier_warp_latency = 2;
  for (const std::uint32_t warps : {1U, 4U}) {
    node on(m, 1, [] {});
    const double time_s = on.run([&] { on.launch(0, barriers{100}, {1, 32 * warps, 0}); }).time_s;
    EXPECT_NEAR(1e9 * time_s, 100 * (10 + 2 * warps), 20) << warps;
  }
}

// Reductions over a warp, and ballots. The elements are 32-bit integers or doubles.
template <class T>
struct warp_chain {
  std::uint32_t reductions = 0;
  std::uint32_t ballots = 0;
  template <class Block>
  void operator()(Block& block) const {
    auto values = block.template make_lane_state<T>(0);
    auto flags = block.template make_lane_state<bool>(false);
    block.each_warp([&](auto warp) {
      for (std::uint32_t k = 0; k < reductions; ++k) warp.min(values);
      for (std::uint32_t k = 0; k < ballots; ++k) warp.ballot(flags);
    });
  }
};

TEST(sub_core, reductions_and_ballots_have_times_of_their_own) {
  auto m = unit();
  m.gpu.issue.integer = m.gpu.issue.fp64 = 32;
  m.gpu.issue.shuffle_latency = 20;
  const auto clocks_of = [&](const auto& kernel) {
    node on(m, 1, [] {});
    return 1e9 * on.run([&] { on.launch(0, kernel, {1, 32, 0}); }).time_s;
  };
  const warp_chain<std::uint32_t> reductions{100, 0};
  const warp_chain<std::uint32_t> ballots{0, 100};
  const warp_chain<double> others{100, 0};
  // 100 reductions have five exchanges of 20 clocks and five operations of 1 clock each
  const double exchanges = 100 * 5 * (20 + 1);
  EXPECT_NEAR(clocks_of(reductions), exchanges, 100);
  EXPECT_NEAR(clocks_of(ballots), 100 * 20, 50);
  m.gpu.issue.reduction_latency = 30;
  m.gpu.issue.vote_latency = 12;
  EXPECT_NEAR(clocks_of(reductions), 100 * 30, 50);
  EXPECT_NEAR(clocks_of(ballots), 100 * 12, 50);
  EXPECT_NEAR(clocks_of(others), exchanges, 100);
}

// Adds up 64 words of shared memory.
struct shared_sum {
  std::uint32_t unroll = 1;
  template <class Block>
  void operator()(Block& block) const {
    const auto words = block.template shared_array<float>(64);
    block.each([&](auto lane) {
      for (auto i : lane.carrying(unroll, {.fp32 = 1}, 0U, 64U)) lane.load(words, i);
    });
  }
};

TEST(sub_core, a_loop_that_carries_a_result_waits_for_its_loads) {
  auto m = unit();
  m.gpu.issue.shared_latency = 30;
  m.gpu.issue.fp32_latency = 4;
  m.gpu.issue.loop_latency = 10;
  for (const std::uint32_t unroll : {1U, 2U, 8U, 64U}) {
    node on(m, 1, [] {});
    const double time_s = on.run([&] { on.launch(0, shared_sum{unroll}, {1, 32, 256}); }).time_s;
    const double groups = 64.0 / unroll;
    // A group takes 30 clocks until its first load arrives, 1 clock for each further load, 4 clocks
    // for each addition, and 10 clocks for the loop.
    EXPECT_NEAR(1e9 * time_s, groups * (30 + unroll - 1 + 4 * unroll + 10), 12 + groups) << unroll;
  }
}

// Finds the minimum of 64 words of shared memory.
struct shared_minimum {
  template <class Block>
  void operator()(Block& block) const {
    const auto words = block.template shared_array<std::uint32_t>(64);
    block.each([&](auto lane) {
      for (auto i : lane.carrying(16, {.minimum = 1}, 0U, 64U)) lane.load(words, i);
    });
  }
};

TEST(sub_core, one_operation_may_take_the_minimum_of_three) {
  auto m = unit();
  m.gpu.issue.shared_latency = 30;
  m.gpu.issue.integer_latency = 5;
  const auto time_of = [&](std::uint32_t inputs) {
    m.gpu.issue.minimum_inputs = inputs;
    node on(m, 1, [] {});
    return 1e9 * on.run([&] { on.launch(0, shared_minimum{}, {1, 32, 256}); }).time_s;
  };
  EXPECT_NEAR(time_of(2), 4 * (30 + 15 + 16 * 5), 20);
  EXPECT_NEAR(time_of(3), 4 * (30 + 15 + 8 * 5), 20);
}

// Copies scattered lines to shared memory, in a loop that the compiler unrolls twice.
struct unrolled_copy {
  local<const float> data;
  template <class Block>
  void operator()(Block& block) const {
    const auto words = block.template shared_array<float>(8 * 32);
    block.each([&](auto lane) {
      const auto put = [&](const auto& k) {
        lane.store(words, k * 32 + lane.index(), lane.load(data, (k * 32 + lane.index()) * 32));
      };
      if (lane.unrolls()) {
        for (auto k : lane.carrying(2, {.integer = 1}, 0U, 8U)) put(k);
      } else {
        for (auto k : lane.range(0U, 8U)) put(k);
      }
    });
  }
};

TEST(sub_core, loops_have_as_many_loads_in_flight_as_they_are_unrolled) {
  auto m = unit();
  m.gpu.l1.mshrs = 4096;
  m.gpu.l2.hit_latency_ps = 1'000'000;
  const auto time_of = [&](double loop_latency) {
    m.gpu.issue.loop_latency = loop_latency;
    node on(m, 1, [] {});
    const auto data = on.allocate<float>(0, 8 * 32 * 32);
    const local<const float> from{data.data, data.size};
    return 1e9 * on.run([&] { on.launch(0, unrolled_copy{from}, {1, 32, 1024}); }).time_s;
  };
  const double at_once = time_of(0);
  EXPECT_GT(at_once, 1000);
  EXPECT_LT(at_once, 3500);
  // There are four groups of two loads. Each group takes at least the L2's latency of 1000 ns.
  EXPECT_GT(time_of(1), 4 * 1000);
}

// Each block loads the same `lines` lines twice. It also has shared memory, which it does not use.
struct lines_twice {
  local<const float> data;
  std::uint32_t lines = 0;
  template <class Block>
  void operator()(Block& block) const {
    block.each([&](auto lane) {
      for (auto k : lane.range(0U, 2 * lines)) lane.load(data, k % lines * 32 + lane.index());
    });
  }
};

TEST(sub_core, shared_memory_may_come_out_of_the_l1) {
  auto m = unit();
  m.gpu.l1.bytes = 256U << 10U;
  m.gpu.shared_bytes = 228U << 10U;
  m.gpu.l1.mshrs = 4096;
  m.gpu.max_warps = 64;
  const auto l2_loads = [&](bool inside, std::uint32_t shared) {
    m.gpu.l1.holds_shared = inside;
    node on(m, 1, [] {});
    constexpr std::uint32_t lines = 1200;  // 150 KiB
    const auto data = on.allocate<float>(0, lines * 32);
    const local<const float> from{data.data, data.size};
    return on.run([&] { on.launch(0, lines_twice{from, lines}, {1, 32, shared}); }).time_s;
  };
  const double fits = l2_loads(false, 8192);
  EXPECT_DOUBLE_EQ(l2_loads(false, 32768), fits);
  // Each of the 32 blocks takes 1 KiB (32 KiB together), although it asks for no shared memory.
  EXPECT_DOUBLE_EQ(l2_loads(true, 0), fits);
  // Each block takes the 8 KiB that it asks for and 1 KiB more. 25 blocks take 225 KiB, for which
  // the L1 gives up 228 of its 256 KiB.
  EXPECT_GT(l2_loads(true, 8192), 1.3 * fits);
}

struct address_loads {
  local<const float> data;
  template <class Block>
  void operator()(Block& block) const {
    block.each([&](auto lane) {
      for (auto k : lane.range(0U, 64U)) {
        (void)k;
        lane.load(data, lane.index() % 32);
      }
    });
  }
};

TEST(sub_core, addresses_of_lanes_take_the_load_store_unit) {
  auto m = unit();
  const auto time_of = [&](std::uint32_t lanes) {
    m.gpu.issue.load_lanes = lanes;
    node on(m, 1, [] {});
    const auto data = on.allocate<float>(0, 32);
    const local<const float> from{data.data, data.size};
    return 1e9 * on.run([&] { on.launch(0, address_loads{from}, {1, 512, 0}); }).time_s;
  };
  // Each load of the 16 warps takes one additional clock.
  EXPECT_NEAR(time_of(16) - time_of(0), 64 * 16, 120);
}

// Makes scattered loads of one sector each.
struct sectors {
  local<const float> data;
  template <class Block>
  void operator()(Block& block) const {
    block.each([&](auto lane) {
      for (auto k : lane.range(0U, 8U)) {
        lane.load(data, (lane.global_index() * 8 + k) * 32);
      }
    });
  }
};

TEST(sub_core, lone_sectors_take_as_long_as_a_request) {
  auto m = unit();
  m.gpu.compute_units = 4;
  m.gpu.l1.mshrs = 4096;
  m.gpu.l2.mshrs = 0;
  const auto time_of = [&](double requests_per_s) {
    m.gpu.dram.requests_per_s = requests_per_s;
    node on(m, 1, [] {});
    const auto data = on.allocate<float>(0, std::uint64_t{32} * 8 * 4096);
    const local<const float> from{data.data, data.size};
    return on.run([&] { on.launch(0, sectors{from}, {32, 128, 0}); }).time_s;
  };
  const double loads = 8 * 4096;
  EXPECT_NEAR(time_of(0), loads * 32 / m.gpu.dram.bytes_per_s, 4e-6);
  EXPECT_NEAR(time_of(2e9), loads / 2e9, 4e-6);
}

// Two kernels of a library call read the same megabyte. Only the first kernel reads it from memory.
TEST(sub_core, sweeps_of_a_call_find_data_in_the_l2) {
  auto m = unit();
  m.gpu.l2.bytes = 4U << 20U;
  node on(m, 1, [] {});
  const auto data = on.allocate<float>(0, 1U << 18U);
  kernel::library_call c;
  c.name = "sweeps";
  c.on_cpu = [] {};
  const std::uint64_t bytes = data.size * sizeof(float);
  const auto time_of = [&](std::uint32_t kernels) {
    c.sweeps.clear();
    for (std::uint32_t k = 0; k < kernels; ++k) {
      c.sweeps.push_back({.data = data.data, .bytes = bytes, .writes = false, .kernel = k});
    }
    node fresh(m, 1, [] {});
    (void)fresh.allocate<float>(0, data.size);
    return fresh.run([&] { fresh.call(0, c); }).time_s;
  };
  const double memory_s = static_cast<double>(bytes) / m.gpu.dram.bytes_per_s;
  const double l2_s = static_cast<double>(bytes) / m.gpu.l2.bytes_per_s;
  const double one = time_of(1);
  EXPECT_NEAR(one, std::max(memory_s, l2_s), 0.1 * memory_s);
  EXPECT_NEAR(time_of(3) - one, 2 * l2_s, 0.3 * l2_s);
}

}  // namespace
}  // namespace interlace::sim::sub_core_tests
