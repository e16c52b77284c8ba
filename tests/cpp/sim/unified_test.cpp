// Remote loads on R9 Nano GPUs. The tests check the route, the time and the flits of these loads,
// the counters, the scalar caches, and the sets of caches.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "interlace/kernel.hpp"
#include "interlace/sim/node.hpp"
#include "sim/r9nano.hpp"
#include "sim/replay.hpp"
#include "sim/trace/reader.hpp"
#include "sim/trace/temporary_file.hpp"

namespace interlace::sim::unified_tests {
namespace {

using kernel::page_placement;

// Lane k of the block loads element k * stride.
struct strided {
  static constexpr std::uint32_t threads = 64;
  unified<float> data;
  local<float> out;
  std::uint32_t lanes = threads;
  std::uint32_t stride = 1;
  template <class Block>
  void operator()(Block& block) const {
    block.each([&](auto lane) {
      if (lane.index() >= lanes) return;
      lane.store(out, lane.index(), lane.load(data, std::uint64_t{lane.index()} * stride));
    });
  }
};

kernel::remote_load_counts loads_of(node& n, const strided& k, grid shape = {1, 64, 0}) {
  return n
      .run([&] {
        n.launch(0, k, shape);
        n.exchange();
      })
      .loads;
}

// In MGPUSim, idle round trips take 392 to 432 ns through one switch, and 1052 to 1090 ns through
// three switches. The test compares the first run (`miss`) with the upper end of each range, and
// the second run (`hit`) with the lower end. The tolerance is 10 %. A round trip begins at the
// port, after the translation, so the page walk of the first run does not count.
TEST(unified, idle_round_trips) {
  const auto round_trips = [](std::uint32_t home) {
    node n(test::r9nano(), 4, [] {});
    const auto data = n.allocate_unified<float>(1024, page_placement::on(home));
    const auto out = n.allocate<float>(0, 64);
    const double miss = loads_of(n, {data, out, 1}).mean_latency_s;
    const double both =
        loads_of(n, {data, out, 1}).mean_latency_s;  // the mean latency over all runs
    return std::pair{miss * 1e9, (2 * both - miss) * 1e9};
  };
  const auto [near_miss, near_hit] = round_trips(1);
  EXPECT_NEAR(near_miss, 432, 43);
  EXPECT_NEAR(near_hit, 392, 39);
  const auto [far_miss, far_hit] = round_trips(2);
  EXPECT_NEAR(far_miss, 1090, 109);
  EXPECT_NEAR(far_hit, 1052, 105);
}

TEST(unified, requests_and_replies_take_whole_flits) {
  node n(test::r9nano(), 2, [] {});
  const auto data = n.allocate_unified<float>(1024, page_placement::on(1));
  const auto out = n.allocate<float>(0, 64);
  const auto c = loads_of(n, {data, out});
  EXPECT_EQ(c.requests, 4U);  // the loads take four lines, 256 bytes
  EXPECT_EQ(c.reply_bytes, 4U * 64);
  // In flits of 16 bytes, a request of 12 bytes takes 16 bytes, and a reply of 68 bytes takes 80
  // bytes.
  EXPECT_EQ(c.wire, 4U * (16 + 80));
}

TEST(unified, counts_of_local_and_remote_loads) {
  node n(test::r9nano(), 4, [] {});
  const auto data = n.allocate_unified<float>(std::size_t{64} * 1024);
  const auto out = n.allocate<float>(0, 64);
  // Each lane reads a word of a separate page. Every fourth page is local.
  const auto c = loads_of(n, {data, out, 64, 1024});
  EXPECT_EQ(c.local, 16U);
  EXPECT_EQ(c.remote, 48U);
  EXPECT_EQ(c.hits, 0U);
  EXPECT_EQ(c.useful_bytes, 48U * 4);
  EXPECT_EQ(c.requests, 48U);
  EXPECT_EQ(c.local_stores, 4U);
  EXPECT_EQ(c.vector_accesses, 68U);
  EXPECT_EQ(c.scalar_accesses, 0U);
  EXPECT_EQ(c.by_words[0], 48U);
  EXPECT_EQ(c.l2_loads, 64U);
  EXPECT_EQ(c.l2_hits, 0U);
  // The first line of an instruction goes to the port first, but the instruction waits for all its
  // lines.
  EXPECT_GT(c.mean_wait_s, c.mean_latency_s);
}

// Links and a switch take 360 ns of an idle round trip.
TEST(unified, time_in_links) {
  node n(test::r9nano(), 4, [] {});
  const auto data = n.allocate_unified<float>(1024, page_placement::on(1));
  const auto out = n.allocate<float>(0, 64);
  const auto c = loads_of(n, {data, out, 1});
  EXPECT_NEAR(c.mean_in_links_s, 360e-9, 18e-9);
  // The rest of the time is that of the L2 and of the memory of the GPU that has the lines.
  EXPECT_NEAR(c.mean_latency_s - c.mean_in_links_s, 70e-9, 10e-9);
  const auto again = loads_of(n, {data, out, 1});
  EXPECT_EQ(again.l2_loads, 2U);
  EXPECT_EQ(again.l2_hits, 1U);
}

// Loads a row of lines twice.
struct twice {
  static constexpr std::uint32_t threads = 64;
  unified<float> data;
  std::uint32_t stride = 0;
  template <class Block>
  void operator()(Block& block) const {
    block.each([&](auto lane) {
      for (auto round : lane.range(0U, 2U)) {
        lane.load(data, std::uint64_t{lane.index()} * stride + round);
        lane.compute(operation::fp32, 1);
      }
    });
  }
};

// The 64 lines are 2 KB apart. If sets are chosen by modulo, all lines are in two sets of four
// ways. The hash spreads the lines over all sets.
TEST(unified, strides_of_a_power_of_two_meet_in_sets_by_modulo) {
  const auto hits = [](bool modulo) {
    machine::machine m = test::r9nano();
    m.gpu.l1.modulo_sets = modulo;
    node n(m, 2, [] {});
    const auto data = n.allocate_unified<float>(std::size_t{64} * 512, page_placement::on(1));
    return n
        .run([&] {
          n.launch(0, twice{data, 512}, {1, 64, 0});
          n.exchange();
        })
        .loads.hits;
  };
  EXPECT_EQ(hits(true), 0U);
  EXPECT_GT(hits(false), 48U);
}

struct uniform {
  static constexpr std::uint32_t threads = 64;
  local<const float> data;
  local<float> out;
  template <class Block>
  void operator()(Block& block) const {
    auto sum = lane_state<float>(block);
    block.each_warp([&](auto warp) {
      for (std::uint32_t k = 0; k < 4; ++k) {
        const float value = warp.load(data, k);
        warp.each([&](auto lane) { sum[lane] += value; });
      }
    });
    block.each([&](auto lane) { lane.store(out, lane.index(), sum[lane]); });
  }
};

TEST(unified, uniform_loads_go_to_the_scalar_caches) {
  machine::machine m = test::r9nano();
  for (const bool scalar : {true, false}) {
    if (!scalar) m.gpu.scalar_l1.bytes = 0;
    node n(m, 2, [] {});
    const auto data = n.allocate_unified<float>(1024, page_placement::on(1));
    n.upload(data, std::vector<float>(1024, 2.0F));
    const auto out = n.allocate<float>(0, 64);
    const auto c = n.run([&] {
                      n.launch(0, uniform{{data.data, data.size}, out}, {4, 64, 0});
                      n.exchange();
                    }).loads;
    EXPECT_EQ(n.download(out), std::vector<float>(64, 8.0F));
    // Four blocks run on four compute units. These compute units share one scalar cache, but have
    // four vector caches.
    EXPECT_EQ(c.scalar_accesses, scalar ? 16U : 0U);
    EXPECT_EQ(c.requests, scalar ? 1U : 4U);
    EXPECT_EQ(c.remote, scalar ? 0U : 16U);
  }
}

// A trace does not state that a load is uniform. A replay recognises a uniform load by the wait
// that follows the load.
TEST(unified, replays_have_the_same_scalar_loads) {
  const test::temporary_file file;
  node n(test::r9nano(), 1, [] {});
  const auto data = n.allocate<float>(0, 1024);
  n.upload(data, std::vector<float>(1024, 2.0F));
  const auto out = n.allocate<float>(0, 64);
  n.record(file.path());
  const double time = n.run([&] {
                         n.launch(0, uniform{data, out}, {64, 64, 0});
                         n.exchange();
                       }).time_s;
  n.finish_recording();
  const trace::reader from(file.path());
  EXPECT_EQ(replay(from, test::r9nano(), kernel::mechanism::inline_stores, [] {}).time_s, time);
}

// Each element gets the number of the block that wrote it.
struct numbered {
  static constexpr std::uint32_t threads = 64;
  unified<std::uint32_t> out;
  template <class Block>
  void operator()(Block& block) const {
    block.each([&](auto lane) {
      lane.store(out, lane.global_index(),
                 static_cast<std::uint32_t>(block.index() * 1000 + block.count()));
    });
  }
};

// Blocks 2 k and 2 k + 1 both load line k.
struct in_pairs {
  static constexpr std::uint32_t threads = 64;
  unified<float> data;
  template <class Block>
  void operator()(Block& block) const {
    block.each([&](auto lane) {
      if (lane.index() == 0) lane.load(data, block.index() / 2 * 16);
    });
  }
};

TEST(unified, neighbouring_blocks_share_a_compute_unit_by_the_dispatch) {
  using machine::block_dispatch;
  const auto requests = [](block_dispatch how) {
    machine::machine m = test::r9nano();
    m.gpu.dispatch = how;
    node n(m, 2, [] {});
    const auto data = n.allocate_unified<float>(1024, page_placement::on(1));
    return n
        .run([&] {
          n.launch(0, in_pairs{data}, {128, 64, 0});
          n.exchange();
        })
        .loads.requests;
  };
  EXPECT_EQ(requests(block_dispatch::round_robin), 128U);
  EXPECT_EQ(requests(block_dispatch::greedy), 64U);
  EXPECT_EQ(requests(block_dispatch::partition), 64U);
}

TEST(unified, every_block_runs_once_under_every_dispatch) {
  using machine::block_dispatch;
  for (const auto how :
       {block_dispatch::round_robin, block_dispatch::greedy, block_dispatch::partition}) {
    for (const std::uint64_t blocks : {1U, 65U, 2570U}) {
      machine::machine m = test::r9nano();
      m.gpu.dispatch = how;
      node n(m, 1, [] {});
      const auto out = n.allocate_unified<std::uint32_t>(blocks * 64);
      n.run([&] {
        n.launch(0, numbered{out}, {blocks, 64, 0});
        n.exchange();
      });
      const auto found = n.download(out);
      for (std::uint64_t k = 0; k < found.size(); ++k) {
        ASSERT_EQ(found[k], static_cast<std::uint32_t>(k / 64 * 1000 + blocks));
      }
    }
  }
}

TEST(unified, a_grid_over_all_devices) {
  for (const auto how :
       {kernel::block_placement::contiguous, kernel::block_placement::round_robin}) {
    node n(test::r9nano(), 4, [] {});
    const auto out = n.allocate_unified<std::uint32_t>(std::size_t{10} * 64);
    const auto c = n.run([&] {
                      n.launch_over(numbered{out}, {10, 64, 0}, how);
                      n.exchange();
                    }).loads;
    const auto found = n.download(out);
    for (std::uint32_t k = 0; k < found.size(); ++k) ASSERT_EQ(found[k], k / 64 * 1000 + 10);
    EXPECT_EQ(c.local_stores + c.remote_stores, 40U);
    EXPECT_EQ(c.local_stores, 12U);  // the first device runs three blocks and owns all elements
  }
}

}  // namespace
}  // namespace interlace::sim::unified_tests
