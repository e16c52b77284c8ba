// The simulated node as a whole. Times match closed forms, no byte is lost, and a repeated run
// gives exactly the same result. Finite resources delay work, but never stop it.
#include "interlace/sim/node.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "sim/described.hpp"

namespace interlace::node_tests {
namespace {

using kernel::mechanism;
using machine::endpoint_kind;
using machine::protocol_kind;

struct fill {
  replicated<float> out;
  std::uint64_t first = 0, last = 0;
  float value = 0;
  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      const auto i = first + lane.global_index();
      if (i < last) lane.store(out, i, value + static_cast<float>(i));
    });
  }
};

struct outcome {
  kernel::run_result result;
  std::vector<std::vector<float>> fronts;
};

outcome run_fill(const machine::machine& m, std::uint32_t devices, mechanism how, std::uint64_t n,
                 int epochs = 1) {
  sim::node node(m, devices, [] {});
  kernel::region_options options;
  for (std::uint32_t d = 0; d <= devices; ++d) options.boundaries.push_back(n * d / devices);
  options.mechanism = how;
  options.split_ranges = 3;
  options.chunk_bytes = n < 100'000 ? 1024 : 65536;
  options.agent_threads = 128;
  const auto region = node.create_region<float>(options);
  outcome o;
  o.result = node.run([&] {
    for (int e = 0; e < epochs; ++e) {
      for (std::uint32_t d = 0; d < devices; ++d) {
        const auto first = options.boundaries[d];
        const auto last = options.boundaries[d + 1];
        node.launch(d, fill{node.view(region, d), first, last, static_cast<float>(e)},
                    {(last - first + 127) / 128, 128, 0}, region,
                    kernel::block_mapping::contiguous(first, 128, last));
      }
      node.exchange(region);
    }
  });
  for (std::uint32_t d = 0; d < devices; ++d) o.fronts.push_back(node.front(region, d));
  return o;
}

using ends = std::pair<machine::endpoint, machine::endpoint>;

// Replaces the links by links between the given pairs of ends. The new links have the properties of
// the first old link.
void relink(machine::machine& m, const std::vector<ends>& pairs) {
  const machine::link like = m.links[0];
  m.links.clear();
  for (const auto& [a, b] : pairs) {
    m.links.push_back(like);
    m.links.back().a = a;
    m.links.back().b = b;
  }
}

TEST(sim_node, every_mechanism_delivers_everything) {
  for (const auto kind : {protocol_kind::nvlink2, protocol_kind::pcie4}) {
    for (const std::uint32_t devices : {1U, 2U, 3U, 4U}) {
      for (const auto how :
           {mechanism::bulk_copy, mechanism::split, mechanism::inline_stores, mechanism::polling,
            mechanism::device_launch, mechanism::copy_engine, mechanism::proact_hardware,
            mechanism::serial_copy, mechanism::infinite_bandwidth}) {
        const std::uint64_t n = 10007;
        const auto o = run_fill(test::meshed(devices, kind), devices, how, n, 3);
        for (const auto& front : o.fronts) {
          for (std::uint64_t i = 0; i < n; ++i) {
            ASSERT_EQ(front[i], 2.0F + static_cast<float>(i)) << kernel::mechanism_name(how);
          }
        }
        // No device reads a delivered element, so all delivered bytes are wasted. In three
        // exchanges, each of n elements of 4 bytes goes to every device except the element's owner.
        const double delivered =
            how == mechanism::infinite_bandwidth ? 0 : 3.0 * 4 * n * (devices - 1);
        EXPECT_EQ(o.result.wire.wasted + o.result.wire.useful, delivered);
        EXPECT_EQ(o.result.wire.useful, 0);
        if (devices > 1 && how != mechanism::infinite_bandwidth) {
          EXPECT_GT(o.result.wire.protocol, 0);
        }
      }
    }
  }
}

struct arrive {
  local<std::uint32_t> counters;
  std::uint32_t times = 0;
  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    for (std::uint32_t k = 0; k < times; ++k) {
      block.last_to_arrive(counters, block.index(), 3);
    }
  }
};

// First the stores of the block must reach the L2. Then the block's atomic goes to the L2, and its
// answer comes back.
TEST(sim_node, an_arrival_takes_two_ways_to_the_l2) {
  const auto m = test::meshed(1, protocol_kind::nvlink2);
  const auto time_of = [&](std::uint32_t times) {
    sim::node node(m, 1, [] {});
    const auto counters = node.allocate<std::uint32_t>(0, 1);
    node.upload(counters, {0U});
    return node.run([&] { node.launch(0, arrive{counters, times}, {1, 32, 0}); }).time_s;
  };
  const double ways = 2 * static_cast<double>(m.gpu.l2.hit_latency_ps) * 1e-12;
  EXPECT_NEAR((time_of(30) - time_of(10)) / 20, ways, 0.02 * ways);
}

struct add_up {
  replicated<float> in;
  local<float> sums;
  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      float sum = 0;
      for (auto i : lane.range(lane.global_index(), in.size, lane.global_count())) {
        sum += lane.load(in, i);
      }
      lane.store(sums, lane.global_index(), sum);
    });
  }
};

// With every mechanism, readers find a delivered region in the L2 if the region fits in it. A run
// with transfers is therefore never faster than a run whose transfers take no time, even if links
// are fast and memory is slow.
TEST(sim_node, what_is_delivered_is_in_the_cache) {
  const std::uint64_t n = 20'000;  // two buffers of 80 kB fit in the L2 of 256 kB
  auto m = test::meshed(4, protocol_kind::nvlink2);
  m.gpu.dram.bytes_per_s = 1e9;
  for (machine::link& l : m.links) l.bytes_per_s = 1e12;
  const auto time = [&](mechanism how) {
    sim::node node(m, 4, [] {});
    kernel::region_options options;
    for (std::uint32_t d = 0; d <= 4; ++d) options.boundaries.push_back(n * d / 4);
    options.mechanism = how;
    const auto region = node.create_region<float>(options);
    std::vector<local<float>> sums;
    for (std::uint32_t d = 0; d < 4; ++d) sums.push_back(node.allocate<float>(d, 512));
    return node
        .run([&] {
          for (int epoch = 0; epoch < 2; ++epoch) {
            for (std::uint32_t d = 0; d < 4; ++d) {
              const auto first = options.boundaries[d];
              node.launch(d, fill{node.view(region, d), first, options.boundaries[d + 1], 1},
                          {(n / 4 + 127) / 128, 128, 0}, region,
                          kernel::block_mapping::contiguous(first, 128, options.boundaries[d + 1]));
            }
            node.exchange(region);
            for (std::uint32_t d = 0; d < 4; ++d) {
              node.launch(d, add_up{node.view(region, d), sums[d]}, {4, 128, 0});
            }
          }
        })
        .time_s;
  };
  const double bound = time(mechanism::infinite_bandwidth);
  for (const auto how : {mechanism::bulk_copy, mechanism::inline_stores, mechanism::finepack}) {
    EXPECT_GE(time(how), bound) << kernel::mechanism_name(how);
  }
}

// There are 4 x 3 copies, ordered by sender, and for each sender by receiver. A copy waits for
// every earlier copy that shares a GPU with it. Therefore only two copies can overlap: from GPU 1
// to GPU 3, and from GPU 2 to GPU 0. The first copy waits for the host.
TEST(sim_node, serial_copies_are_serial) {
  const auto m = test::meshed(4, protocol_kind::nvlink2);
  const std::uint64_t n = 4'000'000;
  const auto bound = run_fill(m, 4, mechanism::infinite_bandwidth, n).result;
  const auto serial = run_fill(m, 4, mechanism::serial_copy, n).result;
  const double bytes = 4.0 * n / 4 * 272 / 256;  // on NVLink 2, 256 bytes have a header of 16 bytes
  const double copy = bytes / 25e9 + 1e-6;
  EXPECT_NEAR(serial.time_s - bound.time_s, 11 * copy + 2e-6, 0.02 * 11 * copy);
}

// The masks of devices, the addresses and the routes must work for every number of GPUs.
TEST(sim_node, one_to_sixteen_gpus) {
  for (std::uint32_t devices = 1; devices <= 16; ++devices) {
    const auto m = test::meshed(devices, protocol_kind::nvlink2);
    for (const auto how : {mechanism::polling, mechanism::device_launch, mechanism::inline_stores,
                           mechanism::proact_hardware, mechanism::serial_copy}) {
      const auto o = run_fill(m, devices, how, 5003, 2);
      for (const auto& front : o.fronts) {
        for (std::uint64_t i = 0; i < 5003; ++i) {
          ASSERT_EQ(front[i], 1.0F + static_cast<float>(i))
              << kernel::mechanism_name(how) << ", " << devices;
        }
      }
    }
  }
}

TEST(sim_node, the_same_run_gives_the_same_result) {
  for (const auto how :
       {mechanism::bulk_copy, mechanism::split, mechanism::inline_stores, mechanism::polling,
        mechanism::device_launch, mechanism::copy_engine, mechanism::proact_hardware}) {
    const auto m = test::meshed(4, protocol_kind::nvlink2);
    const auto a = run_fill(m, 4, how, 50'000, 3);
    const auto b = run_fill(m, 4, how, 50'000, 3);
    EXPECT_EQ(a.result.time_s, b.result.time_s);
    EXPECT_EQ(a.result.accesses, b.result.accesses);
    EXPECT_EQ(a.result.remote_transactions, b.result.remote_transactions);
    EXPECT_EQ(a.result.wire.protocol, b.result.wire.protocol);
    ASSERT_EQ(a.result.timeline.size(), b.result.timeline.size());
    for (std::size_t i = 0; i < a.result.timeline.size(); ++i) {
      EXPECT_EQ(a.result.timeline[i].start_s, b.result.timeline[i].start_s);
      EXPECT_EQ(a.result.timeline[i].end_s, b.result.timeline[i].end_s);
    }
  }
}

TEST(sim_node, a_large_copy_runs_at_the_rate_of_its_link) {
  auto m = test::meshed(2, protocol_kind::nvlink2);
  const std::uint64_t n = 2'000'000;  // device 0 owns half of the elements: 4 MB in each direction
  const auto with = run_fill(m, 2, mechanism::bulk_copy, n);
  const auto without = run_fill(m, 2, mechanism::infinite_bandwidth, n);
  const double wire = 4e6 * (256.0 + 16) / 256;
  const double expected = wire / 25e9 + 1e-6;  // the second term is the time to start the engine
  EXPECT_NEAR(with.result.time_s - without.result.time_s, expected, 0.02 * expected);
}

// Copies to different devices overlap, even if they share one link. Together they take the time
// that the link needs for the bytes of both copies, plus the time to start one copy. Copies to the
// same device run in turn.
TEST(sim_node, only_copies_to_one_device_wait_for_each_other) {
  auto m = test::meshed(3, protocol_kind::nvlink2);
  m.switches = {{"s0", 100'000}};
  relink(m, {{{endpoint_kind::gpu, 0}, {endpoint_kind::network_switch, 0}},
             {{endpoint_kind::gpu, 1}, {endpoint_kind::network_switch, 0}},
             {{endpoint_kind::gpu, 2}, {endpoint_kind::network_switch, 0}}});
  m.gpu.copy_setup_ps = 3'000'000;
  const std::uint64_t n = 3 * 128 * 300;
  const auto bulk = run_fill(m, 3, mechanism::bulk_copy, n).result;
  const double link = 2 * 4.0 * n / 3 * (256 + 16) / 256 / 25e9;
  const double copies =
      bulk.time_s - run_fill(m, 3, mechanism::infinite_bandwidth, n).result.time_s;
  EXPECT_GT(copies, link + 3e-6);
  EXPECT_LT(copies, link + 3e-6 + 2e-6);  // 3 us to start a copy, and at most 2 us for latencies

  // Counts the pairs of copies of one owner that overlap in time.
  const auto overlaps = [](std::vector<kernel::timeline_event> events, bool same_destination) {
    std::erase_if(events, [](const auto& e) { return std::string(e.track) != "copy"; });
    int count = 0;
    for (std::size_t i = 0; i < events.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        const auto& a = events[i];
        const auto& b = events[j];
        if (a.device != b.device || (a.name == b.name) != same_destination) continue;
        if (std::max(a.start_s, b.start_s) < std::min(a.end_s, b.end_s)) ++count;
      }
    }
    return count;
  };
  EXPECT_EQ(overlaps(bulk.timeline, false), 3);
  m.gpu.copy_engines = 6;  // there is an engine for each copy of an owner
  const auto split = run_fill(m, 3, mechanism::split, n).result;
  EXPECT_GE(overlaps(split.timeline, false), 9);
  EXPECT_EQ(overlaps(split.timeline, true), 0);
  m.gpu.copy_peer_engines = 1;
  EXPECT_EQ(overlaps(run_fill(m, 3, mechanism::split, n).result.timeline, false), 0);
}

// The link also limits stores of whole lines to a peer.
TEST(sim_node, inline_stores_saturate_the_link) {
  auto m = test::meshed(2, protocol_kind::nvlink2);
  const std::uint64_t n = 2'000'000;
  const auto o = run_fill(m, 2, mechanism::inline_stores, n);
  const double wire = 4e6 * (128.0 + 16) / 128;
  EXPECT_GT(o.result.time_s, wire / 25e9);
  EXPECT_LT(o.result.time_s, 1.1 * wire / 25e9 + 5e-6);
}

// Each lane adds up a share of an array.
template <class View>
struct sum {
  View in;
  local<float> out;
  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      float total = 0;
      for (auto i : lane.range(lane.global_index(), in.size, lane.global_count())) {
        total += lane.load(in, i);
      }
      lane.store(out, lane.global_index(), total);
    });
  }
};

TEST(sim_node, a_streaming_kernel_is_bound_by_memory) {
  auto m = test::meshed(1, protocol_kind::nvlink2);
  m.gpu.l1.mshrs = 128;  // enough for bandwidth times latency
  m.gpu.l2.mshrs = 64;
  sim::node node(m, 1, [] {});
  const std::uint64_t n = 4'000'000;
  auto in = node.allocate<float>(0, n);
  node.upload(in, std::vector<float>(n, 1.0F));
  auto out = node.allocate<float>(0, 4 * 8 * 128);
  const auto result = node.run([&] {
    node.launch(0, sum<local<float>>{in, out}, {4 * 8, 128, 0});
  });
  const double limit = 4.0 * n / 200e9;
  EXPECT_GT(result.time_s, limit);
  EXPECT_LT(result.time_s, 1.25 * limit);
  for (const float total : node.download(out)) EXPECT_GT(total, 900);
}

struct chase {  // one lane follows indices, so its time is a sum of latencies
  local<const std::uint32_t> next;
  local<std::uint32_t> out;
  std::uint32_t steps = 0;
  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      auto at = lane.load_index(next, lane.index());
      for (auto k : lane.range(1U, steps)) {
        at = lane.load_index(next, at);
        (void)k;
      }
      lane.store(out, lane.index(), at);
    });
  }
};

TEST(sim_node, a_chain_of_loads_costs_their_latencies) {
  const auto m = test::meshed(1, protocol_kind::nvlink2);
  sim::node node(m, 1, [] {});
  // Each step goes to a line that no cache holds.
  const std::uint32_t stride = 4096;
  const std::uint32_t steps = 200;
  std::vector<std::uint32_t> next(std::size_t{stride} * (steps + 1));
  for (std::uint32_t k = 0; k < steps; ++k) next[std::size_t{k} * stride] = (k + 1) * stride;
  auto chain = node.allocate<std::uint32_t>(0, next.size());
  node.upload(chain, next);
  auto out = node.allocate<std::uint32_t>(0, 1);
  const auto result = node.run([&] { node.launch(0, chase{chain, out, steps}, {1, 1, 0}); });
  EXPECT_EQ(node.download(out)[0], steps * stride);
  const double one = 120e-9 + 100e-9;  // the latencies of L2 and DRAM
  EXPECT_NEAR(result.time_s, steps * one, 0.05 * steps * one + 1.5e-6);
}

// With one MSHR and room for one remote store, every access waits for another access. But none of
// them may be lost.
TEST(sim_node, the_smallest_queues_do_not_deadlock) {
  auto m = test::meshed(4, protocol_kind::pcie3);
  m.gpu.l1.mshrs = 1;
  m.gpu.l2.mshrs = 1;
  m.gpu.store_queue_lines = 1;
  m.links[0].queue_bytes = 1;
  for (const auto how :
       {mechanism::bulk_copy, mechanism::split, mechanism::inline_stores, mechanism::polling,
        mechanism::device_launch, mechanism::copy_engine, mechanism::proact_hardware}) {
    const auto o = run_fill(m, 4, how, 5000, 2);
    for (const auto& front : o.fronts) EXPECT_EQ(front[4999], 1.0F + 4999);
  }
}

// The pages of the unified view are spread over the devices, so some of these loads are remote.
TEST(sim_node, unified_loads_cross_the_links) {
  const auto m = test::meshed(2, protocol_kind::nvlink2);
  sim::node node(m, 2, [] {});
  const std::uint64_t n = 64 * 1024;
  auto in = node.allocate_unified<float>(n);
  node.upload(in, std::vector<float>(n, 1.0F));
  EXPECT_EQ(node.download(in), std::vector<float>(n, 1.0F));
  auto out = node.allocate<float>(0, 256);
  const auto result = node.run([&] { node.launch(0, sum<unified<float>>{in, out}, {2, 128, 0}); });
  for (const float total : node.download(out)) EXPECT_EQ(total, 256.0F);
  // Every second page of 4 KiB belongs to the peer. The GPU fetches each line once.
  EXPECT_EQ(result.remote_transactions, n * 4 / 2 / 128);
  EXPECT_EQ(result.wire.useful, n * 4.0 / 2);
}

// A copy must make progress during a kernel that saturates the memory. The copy must slow this
// kernel down.
TEST(sim_node, copies_and_kernels_share_the_memory) {
  auto m = test::meshed(2, protocol_kind::nvlink2);
  m.gpu.l1.mshrs = 128;
  m.gpu.l2.mshrs = 64;
  m.links[0].bytes_per_s = 50e9;
  const std::uint64_t n = 2'000'000;
  const auto time = [&](bool kernel, bool copy) {
    sim::node node(m, 2, [] {});
    kernel::region_options options;
    options.boundaries = {0, 500'000, 500'000};
    options.mechanism = copy ? mechanism::split : mechanism::infinite_bandwidth;
    options.split_ranges = 1;
    const auto region = node.create_region<float>(options);
    auto in = node.allocate<float>(0, n);
    node.upload(in, std::vector<float>(n, 1.0F));
    auto out = node.allocate<float>(0, 4 * 8 * 128);
    return node
        .run([&] {
          // The copies start after this launch and overlap with the next kernel.
          node.launch(0, fill{node.view(region, 0), 0, 500'000, 0}, {3907, 128, 0}, region,
                      kernel::block_mapping::contiguous(0, 128, 500'000));
          if (kernel) node.launch(0, sum<local<float>>{in, out}, {4 * 8, 128, 0});
          node.exchange(region);
        })
        .time_s;
  };
  const double neither = time(false, false);
  const double copy = time(false, true) - neither;    // 2 MB take 43 us
  const double kernel = time(true, false) - neither;  // 8 MB take 40 us
  const double both = time(true, true) - neither;
  EXPECT_LT(both, 0.8 * (copy + kernel));  // the copy and the kernel overlap
  EXPECT_GT(both, std::max(copy, kernel));
}

// A device sends a flag after its stores. The flag must arrive after the stores, however little
// time the fence takes.
TEST(sim_node, flags_do_not_overtake_stores) {
  auto m = test::meshed(2, protocol_kind::nvlink2);
  m.gpu.fence_ps = 0;
  m.gpu.kernel_launch_ps = 0;
  const auto with = run_fill(m, 2, mechanism::inline_stores, 40'000).result.time_s;
  // bytes in one direction; each 128 bytes have a header of 16 bytes
  const double wire = 80e3 * (128.0 + 16) / 128;
  EXPECT_GT(with, wire / 25e9 + 300e-9);
}

// If a run leaves out some GPUs, it also leaves out the links of these GPUs.
TEST(sim_node, fewer_gpus_keep_their_routes) {
  auto m = test::meshed(4, protocol_kind::pcie3);
  m.switches = {{"s0", 100'000}, {"s1", 100'000}};
  std::vector<ends> pairs;
  for (std::uint32_t g = 0; g < 4; ++g) {
    pairs.push_back({{endpoint_kind::gpu, g}, {endpoint_kind::network_switch, g / 2}});
  }
  pairs.push_back({{endpoint_kind::network_switch, 0}, {endpoint_kind::host, 0}});
  pairs.push_back({{endpoint_kind::network_switch, 1}, {endpoint_kind::host, 0}});
  relink(m, pairs);
  // gpu2 is at the other switch, two links further away than gpu1. This must hold whether gpu3
  // takes part or not.
  const auto time = [&](std::uint32_t devices) {
    return run_fill(m, devices, mechanism::bulk_copy, 300).result.time_s;
  };
  EXPECT_GT(time(3), time(2) + 2 * 300e-9);
}

TEST(sim_node, errors_name_what_is_wrong) {
  const auto m = test::meshed(2, protocol_kind::nvlink2);
  EXPECT_THROW(sim::node(m, 3, [] {}), usage_error);
  EXPECT_THROW(sim::node(m, 0, [] {}), usage_error);
  auto apart = m;
  apart.links.clear();
  try {
    run_fill(apart, 2, mechanism::bulk_copy, 100);
    FAIL();
  } catch (const usage_error& e) {
    EXPECT_NE(std::string(e.what()).find("no link"), std::string::npos);
  }
  EXPECT_THROW(run_fill(apart, 2, mechanism::inline_stores, 100), usage_error);
}

TEST(sim_node, an_interrupt_ends_the_run) {
  const auto m = test::meshed(1, protocol_kind::nvlink2);
  struct stop {};
  sim::node node(m, 1, [] { throw stop{}; });
  const std::uint64_t n = 3'000'000;
  auto in = node.allocate<float>(0, n);
  node.upload(in, std::vector<float>(n, 1.0F));
  auto out = node.allocate<float>(0, 512);
  EXPECT_THROW(node.run([&] {
    for (int k = 0; k < 20; ++k) node.launch(0, sum<local<float>>{in, out}, {4, 128, 0});
  }),
               stop);
}

}  // namespace
}  // namespace interlace::node_tests
