// Tracked launches on simulated GPUs. Chunks that are complete and published must travel while the
// kernel still runs. Wrong announcements must be found.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "interlace/base/errors.hpp"
#include "interlace/sim/node.hpp"
#include "sim/described.hpp"

namespace interlace::tracking_tests {
namespace {

using kernel::mechanism;
using machine::protocol_kind;

// Each block computes and writes one tile after another. If `publishes` is true, it publishes each
// tile.
struct worker {
  static constexpr std::uint32_t threads = 128;
  replicated<float> out;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t tile = 0;
  std::uint32_t work = 0;
  bool publishes = false;
  std::uint64_t skipped = ~std::uint64_t{0};   // a tile that is not published
  std::uint64_t repeated = ~std::uint64_t{0};  // a tile that is published twice
  bool apart = false;  // if true, lanes of a warp store elements that are not adjacent
  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    for (std::uint64_t at = begin + block.index() * tile; at < end; at += block.count() * tile) {
      const std::uint64_t last = std::min(end, at + tile);
      block.each([&](auto lane) {
        lane.compute(operation::fp32, work);
        // If `apart` is true, a warp stores 2 elements in each of 32 sectors. Other warps store the
        // rest of these sectors.
        const std::uint64_t own = lane.index();
        const std::uint64_t first = at + (apart ? own % 32 * 8 + own / 32 * 2 : own);
        const std::uint64_t stop = apart ? std::min(last, first + 2) : last;
        for (auto i : lane.range(first, stop, apart ? std::uint64_t{1} : std::uint64_t{threads})) {
          lane.store(out, i, static_cast<float>(i));
        }
      });
      if (!publishes || at == skipped) continue;
      block.publish(out, at, last);
      if (at == repeated) block.publish(out, at, last);
    }
  }
};

struct settings {
  mechanism how = mechanism::polling;
  std::uint64_t blocks = 4096;
  std::uint32_t work = 200;
  bool publishes = false;
  std::uint64_t skipped = ~std::uint64_t{0};
  std::uint64_t repeated = ~std::uint64_t{0};
  std::uint64_t chunk_bytes = 65536;
  std::uint32_t agent_threads = 256;
  double link_bytes_per_s = 25e9;
  bool transfers = true;
  bool apart = false;
  std::uint64_t launch_interval_ps = 500'000;
  std::uint32_t launches_pending = 64;
};

constexpr std::uint64_t elements = 1U << 20U;
constexpr std::uint64_t tile = 256;

// The first of two GPUs computes a region. The second GPU needs this region.
kernel::run_result run_epoch(const settings& s) {
  machine::machine m = test::meshed(2, protocol_kind::nvlink2);
  m.links[0].bytes_per_s = s.link_bytes_per_s;
  m.gpu.device_launch_interval_ps = s.launch_interval_ps;
  m.gpu.device_launches_pending = s.launches_pending;
  sim::node node(m, 2, [] {});
  kernel::region_options options;
  options.boundaries = {0, elements, elements};
  options.mechanism = s.how;
  options.chunk_bytes = s.chunk_bytes;
  options.agent_threads = s.agent_threads;
  options.transfers = s.transfers;
  const auto region = node.create_region<float>(options);
  const auto mapping = kernel::block_mapping::custom([&](std::uint64_t b) {
    std::vector<kernel::element_range> ranges;
    for (std::uint64_t at = b * tile; at < elements; at += s.blocks * tile) {
      ranges.push_back({at, std::min(elements, at + tile)});
    }
    return ranges;
  });
  const auto result = node.run([&] {
    node.launch(0,
                worker{node.view(region, 0), 0, elements, tile, s.work, s.publishes, s.skipped,
                       s.repeated, s.apart},
                {s.blocks, worker::threads, 0}, region, mapping);
    node.exchange(region);
  });
  const auto got = node.front(region, 1);
  for (std::uint64_t i = 0; i < elements; ++i) EXPECT_EQ(got[i], static_cast<float>(i));
  return result;
}

double run(const settings& s) { return run_epoch(s).time_s; }

constexpr mechanism tracked[] = {mechanism::polling, mechanism::device_launch,
                                 mechanism::copy_engine, mechanism::proact_hardware};

TEST(sim_tracking, hides_most_of_the_transfer) {
  const double bound = run({.how = mechanism::infinite_bandwidth});
  const double bulk = run({.how = mechanism::bulk_copy});
  ASSERT_GT(bulk, 1.2 * bound);
  for (const auto how : tracked) {
    const double time = run({.how = how});
    EXPECT_LT(time - bound, 0.4 * (bulk - bound)) << kernel::mechanism_name(how);
    EXPECT_GE(time, bound) << kernel::mechanism_name(how);
  }
}

TEST(sim_tracking, without_transfers_tracking_is_left) {
  const double bound = run({.how = mechanism::infinite_bandwidth});
  for (const auto how : tracked) {
    const settings moving{.how = how};
    settings still = moving;
    still.transfers = false;
    const auto left = run_epoch(still);
    EXPECT_LT(left.time_s, run(moving)) << kernel::mechanism_name(how);
    EXPECT_GT(left.time_s, bound) << kernel::mechanism_name(how);
    EXPECT_EQ(left.wire.useful + left.wire.wasted, 0) << kernel::mechanism_name(how);
  }
  settings hardware{.how = mechanism::proact_hardware, .transfers = false};
  settings polling{.how = mechanism::polling, .transfers = false};
  EXPECT_LT(run(hardware), run(polling));
  EXPECT_THROW(run({.how = mechanism::bulk_copy, .transfers = false}), usage_error);
}

// The PROACT paper (section V-B) expects this result, because hardware sends whole chunks while
// inline stores send small packets.
TEST(sim_tracking, hardware_wins_where_small_stores_fill_the_links) {
  const settings small{.how = mechanism::inline_stores, .apart = true};
  settings hardware = small;
  hardware.how = mechanism::proact_hardware;
  EXPECT_LT(run(hardware), 0.6 * run(small));
}

// The threads that send a chunk store lines of 128 bytes.
TEST(sim_tracking, packets_of_threads_are_counted) {
  for (const auto how : {mechanism::polling, mechanism::device_launch}) {
    EXPECT_EQ(run_epoch({.how = how}).remote_transactions, elements * 4 / 128);
  }
  EXPECT_EQ(run_epoch({.how = mechanism::proact_hardware}).remote_transactions, 0);
}

TEST(sim_tracking, launches_start_one_after_another) {
  const settings fast{.how = mechanism::device_launch, .work = 10};
  settings slow = fast;
  slow.launch_interval_ps = 20'000'000;
  // The region has 4 MiB and chunks of at most 64 KiB, so there are more than 60 launches.
  EXPECT_GT(run(slow), run(fast) + 60 * 15e-6);
}

TEST(sim_tracking, blocks_copy_what_they_cannot_launch) {
  const settings many{
      .how = mechanism::device_launch, .work = 10, .launch_interval_ps = 20'000'000};
  settings few = many;
  few.launches_pending = 1;
  // If only one launch may be pending, blocks copy chunks themselves, and the kernel does not wait
  // for the slow launches.
  EXPECT_LT(run(few), 0.5 * run(many));
  EXPECT_EQ(run_epoch(few).remote_transactions, elements * 4 / 128);
}

TEST(sim_tracking, launched_kernels_take_places) {
  settings s{.how = mechanism::device_launch, .work = 400, .transfers = false};
  s.agent_threads = 32;
  const double small = run(s);
  s.agent_threads = 4096;  // the agent's kernels take all places of the GPU
  EXPECT_GT(run(s), small);
}

// An agent reads data once and sends it to all peers.
TEST(sim_tracking, an_agent_reads_once_for_all_peers) {
  const auto time = [](std::uint32_t devices) {
    machine::machine m = test::meshed(devices, protocol_kind::nvlink2);
    m.gpu.dram.bytes_per_s = 20e9;
    for (machine::link& l : m.links) l.bytes_per_s = 100e9;
    sim::node node(m, devices, [] {});
    kernel::region_options options;
    options.boundaries.assign(devices + 1, elements);
    options.boundaries[0] = 0;
    options.mechanism = mechanism::polling;
    options.chunk_bytes = 65536;
    options.agent_threads = 512;
    const auto region = node.create_region<float>(options);
    return node
        .run([&] {
          node.launch(0, worker{node.view(region, 0), 0, elements, tile, 1}, {4096, 128, 0}, region,
                      kernel::block_mapping::contiguous(0, tile, elements));
          node.exchange(region);
        })
        .time_s;
  };
  EXPECT_LT(time(4), 1.1 * time(2));
}

TEST(sim_tracking, long_lived_blocks_publish_in_their_midst) {
  // The launch has as many blocks as can be resident at the same time. If these blocks did not
  // publish, all of them would end together.
  const settings s{.blocks = 64, .work = 200};
  for (const auto how : tracked) {
    settings late = s;
    late.how = how;
    settings early = late;
    early.publishes = true;
    EXPECT_LT(run(early), run(late)) << kernel::mechanism_name(how);
  }
}

TEST(sim_tracking, few_threads_are_slower) {
  const settings many{.work = 10, .agent_threads = 512, .link_bytes_per_s = 100e9};
  settings few = many;
  few.agent_threads = 32;
  EXPECT_GT(run(few), 1.15 * run(many));
}

std::string failure(const settings& s) {
  try {
    run(s);
  } catch (const model_error& e) {
    return e.what();
  }
  return "nothing";
}

TEST(sim_tracking, wrong_announcements_are_found) {
  const settings right{.blocks = 64, .work = 100, .publishes = true};
  settings skips = right;
  skips.skipped = 5 * tile;
  EXPECT_NE(failure(skips).find("announced too little of chunk 0"), std::string::npos)
      << failure(skips);
  settings repeats = right;
  repeats.repeated = 7 * tile;
  EXPECT_NE(failure(repeats).find("announced too much of chunk 0"), std::string::npos)
      << failure(repeats);
}

TEST(sim_tracking, a_failed_run_is_the_last) {
  sim::node node(test::meshed(2, protocol_kind::nvlink2), 2, [] {});
  kernel::region_options options;
  options.boundaries = {0, 1024, 1024};
  options.mechanism = mechanism::polling;
  options.chunk_bytes = 1024;
  const auto region = node.create_region<float>(options);
  const auto mapping = kernel::block_mapping::custom([](std::uint64_t b) {
    return std::vector<kernel::element_range>{{b * tile, (b + 1) * tile},
                                              {(b + 2) * tile, (b + 3) * tile}};
  });
  const auto epoch = [&](std::uint64_t skipped) {
    node.launch(0, worker{node.view(region, 0), 0, 1024, tile, 1, true, skipped},
                {2, worker::threads, 0}, region, mapping);
    node.exchange(region);
  };
  EXPECT_GT(node.run([&] { epoch(~std::uint64_t{0}); }).time_s, 0);
  EXPECT_THROW(node.run([&] { epoch(tile); }), model_error);
  try {
    node.run([&] { epoch(~std::uint64_t{0}); });
    FAIL() << "ran again";
  } catch (const model_error& e) {
    EXPECT_NE(std::string(e.what()).find("after a run that failed"), std::string::npos) << e.what();
  }
}

TEST(sim_tracking, a_launch_is_exchanged) {
  sim::node node(test::meshed(2, protocol_kind::nvlink2), 2, [] {});
  kernel::region_options options;
  options.boundaries = {0, 1024, 1024};
  options.mechanism = mechanism::polling;
  options.chunk_bytes = 1024;
  const auto region = node.create_region<float>(options);
  const auto launch = [&] {
    node.launch(0, worker{node.view(region, 0), 0, 1024, tile, 1}, {4, worker::threads, 0}, region,
                kernel::block_mapping::contiguous(0, tile, 1024));
  };
  EXPECT_THROW(node.run(launch), model_error);
  EXPECT_THROW(node.run([&] { node.exchange(region); }), model_error);
  sim::node again(test::meshed(2, protocol_kind::nvlink2), 2, [] {});
  options.chunk_bytes = std::uint64_t{2} << 30U;
  EXPECT_THROW((void)again.create_region<float>(options), usage_error);
}

}  // namespace
}  // namespace interlace::tracking_tests
