// Compares the observations of a run with closed forms: the bytes and the latency of each pair of
// GPUs, the use of the links, and idle times.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "interlace/sim/node.hpp"
#include "sim/described.hpp"
#include "sim/fabric/protocol.hpp"

namespace interlace::observation_tests {
namespace {

using machine::protocol_kind;

struct fill {
  replicated<float> out;
  std::uint64_t first = 0, last = 0;
  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      const auto i = first + lane.global_index();
      if (i < last) lane.store(out, i, 1.0F);
    });
  }
};

// Device d fills `elements[d]` elements, which every device receives.
kernel::run_result filled(const machine::machine& m, kernel::mechanism how,
                          const std::vector<std::uint64_t>& elements) {
  const auto devices = static_cast<std::uint32_t>(elements.size());
  sim::node node(m, devices, [] {});
  kernel::region_options options;
  options.mechanism = how;
  options.boundaries = {0};
  for (const std::uint64_t n : elements)
    options.boundaries.push_back(options.boundaries.back() + n);
  const auto region = node.create_region<float>(options);
  return node.run([&] {
    for (std::uint32_t d = 0; d < devices; ++d) {
      const auto first = options.boundaries[d];
      const auto last = options.boundaries[d + 1];
      node.launch(d, fill{node.view(region, d), first, last}, {(last - first + 127) / 128, 128, 0},
                  region, kernel::block_mapping::contiguous(first, 128, last));
    }
    node.exchange(region);
  });
}

TEST(observation, pairs_have_the_bytes_that_the_kernels_stored) {
  const std::vector<std::uint64_t> elements{32'000, 3'200, 320};
  const auto m = test::meshed(3, protocol_kind::nvlink2);
  const std::uint64_t flag = sim::write_packet_bytes(m.links[0].protocol, 0, 8, false);
  for (const auto how : {kernel::mechanism::inline_stores, kernel::mechanism::bulk_copy}) {
    const auto result = filled(m, how, elements);
    ASSERT_TRUE(result.observed.has_value());
    const kernel::observation& o = *result.observed;
    EXPECT_DOUBLE_EQ(o.time_s, result.time_s);
    ASSERT_EQ(o.pairs.size(), 6U);
    for (const kernel::pair_traffic& p : o.pairs) {
      const std::uint64_t bytes = 4 * elements[p.from];
      const bool copied = how == kernel::mechanism::bulk_copy;
      const std::uint64_t each = copied ? 256 : 128;  // bytes of payload in a packet
      EXPECT_EQ(p.payload_bytes, bytes);
      EXPECT_EQ(p.protocol_bytes, (bytes + each - 1) / each * 16 + flag);
      EXPECT_EQ(p.packets, (bytes + each - 1) / each + 1);
      EXPECT_EQ(p.messages, copied ? (bytes + 4095) / 4096 + 1 : p.packets);
      EXPECT_GE(p.mean_latency_s, 300e-9);
      EXPECT_GE(p.max_latency_s, p.mean_latency_s);
    }
    ASSERT_EQ(o.links.size(), 6U);
    for (const kernel::link_traffic& l : o.links) {
      const auto p = std::find_if(o.pairs.begin(), o.pairs.end(), [&](const auto& pair) {
        return "gpu" + std::to_string(pair.from) == l.from &&
               "gpu" + std::to_string(pair.to) == l.to;
      });
      ASSERT_NE(p, o.pairs.end());
      EXPECT_EQ(l.wire_bytes, p->payload_bytes + p->protocol_bytes);
      const double busy_s = static_cast<double>(l.wire_bytes) / 25e9;
      EXPECT_NEAR(l.busy * o.time_s, busy_s, 1e-3 * busy_s);
      double binned_s = 0;
      for (std::size_t k = 0; k < l.by_bin.size(); ++k) {
        const double begin = static_cast<double>(k) * o.bin_s;
        binned_s += l.by_bin[k] * std::min(o.bin_s, o.time_s - begin);
        EXPECT_LE(l.by_bin[k], 1 + 1e-6);
      }
      EXPECT_NEAR(binned_s, busy_s, 1e-3 * busy_s);
    }
  }
}

TEST(observation, a_gpu_without_work_is_idle_while_others_compute) {
  const auto result = filled(test::meshed(3, protocol_kind::nvlink2),
                             kernel::mechanism::infinite_bandwidth, {400'000, 400'000, 128});
  const auto& gpus = result.observed->devices;
  ASSERT_EQ(gpus.size(), 3U);
  EXPECT_GT(gpus[0].kernel, 0.7);
  EXPECT_LT(gpus[0].idle_while_others_compute, 0.05);
  EXPECT_LT(gpus[2].kernel, 0.1);
  EXPECT_GT(gpus[2].idle_while_others_compute, 0.7);
  for (const auto& g : gpus) {
    EXPECT_NEAR(g.kernel + g.idle, 1, 1e-9);  // there are no copies
    EXPECT_EQ(g.copy, 0);
    EXPECT_GT(g.issue, 0);
    EXPECT_LE(g.issue, 1);
    EXPECT_LE(g.memory, 1);
  }
  EXPECT_GT(gpus[0].issue, 100 * gpus[2].issue);
}

TEST(observation, ends_with_the_run_even_if_clocks_still_tick) {
  auto m = test::meshed(2, protocol_kind::pcie4);
  m.gpu.write_queue.idle_flush_ps = 1'000'000'000;  // the timeout is longer than the run
  const auto result = filled(m, kernel::mechanism::finepack, {3'200, 3'200});
  const kernel::observation& o = *result.observed;
  EXPECT_LT(result.time_s, 1e-4);
  EXPECT_DOUBLE_EQ(o.time_s, result.time_s);
  for (const auto& g : o.devices) EXPECT_NEAR(g.kernel + g.idle, 1, 1e-9);
}

// Follows indices in memory of the other GPU. The round trips follow one another, and no other work
// runs.
struct chase {
  unified<std::uint32_t> next;
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

TEST(observation, a_round_trip_on_an_idle_machine_takes_the_sum_of_its_parts) {
  const auto m = test::meshed(2, protocol_kind::nvlink2);
  const std::uint32_t most = 80;
  // No cache holds the lines of these words. The words lie on every second page of 4 KiB, and these
  // pages belong to GPU 1.
  const auto place = [](std::uint32_t k) { return k == 0 ? 0 : 2048 * k - 1024; };
  const auto time = [&](std::uint32_t steps, kernel::observation& o) {
    sim::node node(m, 2, [] {});
    std::vector<std::uint32_t> next(place(most + 1) + 1);
    for (std::uint32_t k = 0; k < most; ++k) next[place(k)] = place(k + 1);
    auto chain = node.allocate_unified<std::uint32_t>(next.size());
    node.upload(chain, next);
    auto out = node.allocate<std::uint32_t>(0, 1);
    const auto result = node.run([&] { node.launch(0, chase{chain, out, steps}, {1, 1, 0}); });
    EXPECT_EQ(node.download(out)[0], place(steps));
    o = *result.observed;
    return result.time_s;
  };
  kernel::observation few;
  kernel::observation many;
  const double each = (time(most, many) - time(most / 2, few)) / (most / 2);
  const machine::protocol& p = m.links[0].protocol;
  const double request = sim::read_request_bytes(p) / 25e9 + 300e-9;
  const double reply = sim::read_reply_bytes(p, 32) / 25e9 + 300e-9;
  // A step takes half of the L2's latency (60 ns) three times: on the way to the link on GPU 0, and
  // on the way to and from the L2 on GPU 1. The memory takes 100 ns and then delivers one sector,
  // through one of eight channels that share 200 GB/s.
  const double memory = 3 * 60e-9 + 100e-9 + 32 * 8 / 200e9;
  EXPECT_NEAR(each, request + memory + reply, 0.01 * each);
  ASSERT_EQ(many.pairs.size(), 2U);
  EXPECT_EQ(many.pairs[0].messages, most - 1);  // the first step is on GPU 0
  EXPECT_NEAR(many.pairs[0].mean_latency_s, request, 2e-12);
  EXPECT_NEAR(many.pairs[0].max_latency_s, request, 2e-12);
  EXPECT_NEAR(many.pairs[1].mean_latency_s, reply, 2e-12);
}

}  // namespace
}  // namespace interlace::observation_tests
