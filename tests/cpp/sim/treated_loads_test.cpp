// The steps of DualOpt in simulated GPUs, and the traffic on the links with each step.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "interlace/base/errors.hpp"
#include "interlace/kernel.hpp"
#include "interlace/sim/node.hpp"
#include "sim/described.hpp"
#include "sim/r9nano.hpp"

namespace interlace::sim::treated_loads_tests {
namespace {

using kernel::page_placement;

// Lane k of each block loads `rounds` times. It starts at element k * stride, and moves on by one
// word after each load.
struct strided {
  static constexpr std::uint32_t threads = 64;
  unified<float> data;
  std::uint32_t stride = 1;
  std::uint32_t rounds = 1;
  template <class Block>
  void operator()(Block& block) const {
    block.each([&](auto lane) {
      for (auto k : lane.range(0U, rounds)) {
        lane.load(data, std::uint64_t{lane.index()} * stride + k);
        lane.compute(operation::fp32, 1);
      }
    });
  }
};

kernel::remote_load_counts loads_under(const std::string& how, const strided& what,
                                       std::uint64_t blocks, const machine::machine& m) {
  node n(m, 2, [] {});
  n.treat_loads(kernel::parse_remote_loads(how));
  strided k = what;
  k.data = n.allocate_unified<float>(std::uint64_t{64} * what.stride + what.rounds,
                                     page_placement::on(1));
  return n
      .run([&] {
        n.launch(0, k, {blocks, 64, 0});
        n.exchange();
      })
      .loads;
}
kernel::remote_load_counts loads_under(const std::string& how, const strided& what,
                                       std::uint64_t blocks = 1) {
  return loads_under(how, what, blocks, test::r9nano());
}

// Each of 64 lanes loads a word of a separate line twice.
constexpr strided sparse{{}, 16, 2};

TEST(treated_loads, direct) {
  const auto c = loads_under("direct", sparse);
  EXPECT_EQ(c.requests, 64U);
  EXPECT_EQ(c.hits, 64U);
  EXPECT_EQ(c.reply_bytes, 64U * 64);
  EXPECT_EQ(c.wire, 64U * (16 + 80));
  EXPECT_EQ(c.bypassed, 0U);
}

TEST(treated_loads, bypassing_ones_neither_hit_nor_fill) {
  const auto c = loads_under("bypass", sparse);
  EXPECT_EQ(c.requests, 128U);
  EXPECT_EQ(c.hits, 0U);
  EXPECT_EQ(c.bypassed, 128U);
  EXPECT_EQ(c.wire, 128U * (16 + 80));
}

TEST(treated_loads, fine_loads_fetch_the_words_that_lanes_want) {
  const auto c = loads_under("fine-grained", sparse);
  EXPECT_EQ(c.requests, 128U);
  EXPECT_EQ(c.reply_bytes, 128U * 4);
  // A request takes one flit; a header and a word take one flit, too.
  EXPECT_EQ(c.wire, 128U * (16 + 16));
  // If the lanes read a whole line, the reply has the whole line.
  const auto dense = loads_under("fine-grained", {{}, 1, 1});
  EXPECT_EQ(dense.requests, 4U);
  EXPECT_EQ(dense.wire, 4U * (16 + 80));
}

TEST(treated_loads, coalesced_replies_share_packets) {
  const auto c = loads_under("coalesced", sparse);
  EXPECT_EQ(c.requests, 128U);
  EXPECT_EQ(c.pieces, 128U);
  EXPECT_EQ(c.reply_bytes, 128U * 4);
  EXPECT_LT(c.coalesced, 128U / 2);
  EXPECT_GE(c.coalesced, 128U / 10);
  EXPECT_LE(c.wire, 128U * 16 + c.coalesced * 64);
  // If the lanes read more than ten pieces of a line, the reply has the whole line.
  const auto dense = loads_under("coalesced", {{}, 1, 1});
  EXPECT_EQ(dense.coalesced, 0U);
  EXPECT_EQ(dense.wire, 4U * (16 + 80));
}

TEST(treated_loads, granularity) {
  for (const std::uint32_t piece : {4U, 8U, 16U}) {
    machine::machine m = test::r9nano();
    m.gpu.dualopt.piece_bytes = piece;
    const auto c = loads_under("coalesced", sparse, 1, m);
    EXPECT_EQ(c.pieces, 128U);
    EXPECT_EQ(c.reply_bytes, 128U * piece);
  }
}

// Four compute units load the same 64 lines.
TEST(treated_loads, the_rdma_cache_is_shared) {
  const auto c = loads_under("rdma-cache", sparse, 4);
  EXPECT_EQ(c.requests, 64U);
  EXPECT_EQ(c.cache_hits + c.cache_misses, 4U * 64);
  EXPECT_EQ(loads_under("direct", sparse, 4).requests, 4U * 64);
}

TEST(treated_loads, the_rdma_cache_is_empty_after_a_kernel) {
  node n(test::r9nano(), 2, [] {});
  n.treat_loads(kernel::parse_remote_loads("rdma-cache"));
  const strided k{n.allocate_unified<float>(2000, page_placement::on(1)), 16, 2};
  const auto c = n.run([&] {
                    n.launch(0, k, {1, 64, 0});
                    n.launch(0, k, {1, 64, 0});
                    n.exchange();
                  }).loads;
  EXPECT_EQ(c.requests, 128U);
}

// A kernel finds the lines of the previous kernel in the L2 of the other GPU, unless the machine
// empties its L2s.
TEST(treated_loads, an_l2_may_be_emptied_between_kernels) {
  const auto hits = [](bool emptied) {
    machine::machine m = test::r9nano();
    m.gpu.l2.emptied = emptied;
    node n(m, 2, [] {});
    n.treat_loads(kernel::parse_remote_loads("direct"));
    const strided k{n.allocate_unified<float>(2000, page_placement::on(1)), 16, 1};
    const auto launches = [&] {
      for (std::uint32_t round = 0; round < 2; ++round) {
        n.launch(0, k, {1, 64, 0});
        n.launch(1, strided{}, {0, 64, 0});
        n.exchange();
      }
    };
    const auto c = n.run(launches).loads;
    EXPECT_EQ(c.l2_loads, 128U);
    return c.l2_hits;
  };
  EXPECT_EQ(hits(false), 64U);
  EXPECT_EQ(hits(true), 0U);
}

TEST(treated_loads, the_engine_decides) {
  machine::machine m = test::r9nano();
  m.gpu.dualopt.monitored = 500;
  m.gpu.dualopt.warm_up = 100;
  // The lanes load one word of each line once, so no load hits.
  const auto sparse_once = loads_under("dualopt", {{}, 16, 1}, 40, m);
  ASSERT_EQ(sparse_once.decisions.size(), 1U);
  EXPECT_TRUE(sparse_once.decisions[0].made);
  EXPECT_EQ(sparse_once.decisions[0].choice, "coalesced");
  EXPECT_EQ(sparse_once.decisions[0].remote, 500U);
  EXPECT_DOUBLE_EQ(sparse_once.decisions[0].block_utilisation, 1.0 / 16);
  EXPECT_GT(sparse_once.bypassed, 1000U);
  EXPECT_GT(sparse_once.coalesced, 0U);
  // Every compute unit loads four words of each line.
  const auto dense = loads_under("dualopt", {{}, 4, 1}, 64, m);
  ASSERT_EQ(dense.decisions.size(), 1U);
  EXPECT_TRUE(dense.decisions[0].made);
  EXPECT_EQ(dense.decisions[0].choice, "rdma-cache");
  EXPECT_GT(dense.cache_misses, 0U);
  EXPECT_EQ(dense.bypassed, 0U);
  // This run has too few accesses for a decision.
  const auto few = loads_under("dualopt", {{}, 16, 1}, 2, m);
  ASSERT_EQ(few.decisions.size(), 1U);
  EXPECT_FALSE(few.decisions[0].made);
  EXPECT_EQ(few.bypassed, 0U);
  EXPECT_TRUE(loads_under("coalesced", {{}, 16, 1}, 2, m).decisions.empty());
}

// Lane gid loads element gid * stride modulo `size`.
struct cyclic {
  static constexpr std::uint32_t threads = 64;
  unified<float> data;
  std::uint64_t size = 1;
  std::uint32_t stride = 1;
  template <class Block>
  void operator()(Block& block) const {
    block.each([&](auto lane) {
      lane.load(data, lane.global_index() * stride % size);
      lane.compute(operation::fp32, 1);
    });
  }
};

// A run with three phases. In the first phase, lanes load one word of each line. In the second
// phase, all compute units load four words of the same lines, and these lines fit in no L1. In the
// third phase, all loads are local.
kernel::remote_load_counts phases_under(const std::string& how, double& time_s) {
  machine::machine m = test::r9nano();
  m.gpu.dualopt.monitored = 500;
  m.gpu.dualopt.warm_up = 100;
  m.gpu.tlb = {};  // page walks would hide the latency of the loads
  node n(m, 2, [] {});
  n.treat_loads(kernel::parse_remote_loads(how));
  constexpr std::uint64_t streamed = std::uint64_t{400} * 64 * 16;
  constexpr std::uint64_t shared = 65536;
  const auto once = n.allocate_unified<float>(streamed, page_placement::on(1));
  const auto again = n.allocate_unified<float>(shared, page_placement::on(1));
  const auto near = n.allocate_unified<float>(streamed, page_placement::on(0));
  const auto run = n.run([&] {
    n.launch(0, cyclic{once, streamed, 16}, {400, 64, 0});
    n.launch(0, cyclic{again, shared, 4}, {6000, 64, 0});
    n.launch(0, cyclic{near, streamed, 16}, {2000, 64, 0});
    n.exchange();
  });
  time_s = run.time_s;
  return run.loads;
}

TEST(treated_loads, an_adaptive_engine_follows_the_phases) {
  double once_s = 0;
  double adaptive_s = 0;
  const auto once = phases_under("dualopt", once_s);
  const auto adaptive = phases_under("dualopt-adaptive", adaptive_s);
  ASSERT_EQ(once.decisions.size(), 1U);
  std::vector<std::string> choices;
  for (const auto& d : adaptive.decisions) choices.push_back(d.choice);
  EXPECT_EQ(choices, (std::vector<std::string>{"coalesced", "rdma-cache", "none"}));
  EXPECT_EQ(once.cache_hits, 0U);
  EXPECT_GT(adaptive.cache_hits, 1000U);
  EXPECT_LT(adaptive_s, once_s);
  // The adaptive engine bypasses the L1 for fewer loads, because it lets the compute units use
  // their L1 again in later phases.
  EXPECT_LT(adaptive.bypassed, once.bypassed);
}

// One kernel loads one word of each line of its array. Another kernel loads four words of each line
// of its array. A third kernel loads only a few words of a third array.
TEST(treated_loads, pages_are_treated_by_their_own_locality) {
  machine::machine m = test::r9nano();
  m.gpu.dualopt.page_loads = 100;
  node n(m, 2, [] {});
  n.treat_loads(kernel::parse_remote_loads("dualopt-pages"));
  const auto words = n.allocate_unified<float>(std::uint64_t{64} * 16, page_placement::on(1));
  const auto parts = n.allocate_unified<float>(std::uint64_t{64} * 16, page_placement::on(1));
  const auto few = n.allocate_unified<float>(std::uint64_t{64} * 16, page_placement::on(1));
  const auto c = n.run([&] {
                    n.launch(0, strided{words, 16, 1}, {40, 64, 0});
                    n.launch(0, strided{parts, 4, 1}, {40, 64, 0});
                    n.launch(0, strided{few, 16, 1}, {1, 64, 0});
                    n.exchange();
                  }).loads;
  EXPECT_EQ(c.coalesced_pages, 1U);
  EXPECT_EQ(c.cached_pages, 1U);
  EXPECT_TRUE(c.decisions.empty());
  EXPECT_EQ(c.bypassed, 40U * 64 - 100);
  EXPECT_GT(c.coalesced, 0U);
  EXPECT_GT(c.cache_hits + c.cache_misses, 0U);
  EXPECT_LE(c.cache_hits + c.cache_misses, 40U * 16 - 100);
}

// Each lane stores four adjacent words in four stores.
struct rewritten {
  static constexpr std::uint32_t threads = 64;
  unified<float> data;
  template <class Block>
  void operator()(Block& block) const {
    block.each([&](auto lane) {
      const std::uint64_t first = lane.global_index() * 4;
      for (auto k : lane.range(0U, 4U)) {
        lane.store(data, first + k, static_cast<float>(first + k));
      }
    });
  }
};

TEST(treated_loads, stores_of_unified_arrays_are_packed) {
  const auto run = [](const std::string& how) {
    machine::machine m = test::r9nano();
    for (auto& link : m.links) link.protocol.max_payload_bytes = 4096;
    node n(m, 2, [] {});
    n.treat_loads(kernel::parse_remote_loads(how));
    const auto data = n.allocate_unified<float>(4096, page_placement::on(1));
    const auto done = n.run([&] {
      n.launch(0, rewritten{data}, {16, 64, 0});
      n.exchange();
    });
    for (std::uint64_t k = 0; k < 4096; ++k) EXPECT_EQ(data.data[k], static_cast<float>(k));
    return done;
  };
  const auto plain = run("direct");
  const auto packed = run("finepack");
  EXPECT_EQ(packed.stores.bytes, plain.stores.bytes);
  EXPECT_LT(packed.stores.packets, plain.stores.packets / 4);
  EXPECT_LT(packed.wire.protocol, plain.wire.protocol / 2);
  EXPECT_EQ(run("dualopt-finepack").stores.packets, packed.stores.packets);
  // On this machine, a packet has no room for a line with its sub-header.
  node n(test::r9nano(), 2, [] {});
  EXPECT_THROW(n.treat_loads(kernel::parse_remote_loads("finepack")), usage_error);
}

// If all lines of a set are in flight, a miss in this set delays later loads, unless it bypasses
// the L1.
TEST(treated_loads, full_sets_stall) {
  const auto time = [](const std::string& how, bool stalls) {
    machine::machine m = test::r9nano();
    m.gpu.l1.stalls_on_full_set = stalls;
    node n(m, 2, [] {});
    n.treat_loads(kernel::parse_remote_loads(how));
    const strided k{n.allocate_unified<float>(std::uint64_t{64} * 512 + 8, page_placement::on(1)),
                    512, 8};
    return n
        .run([&] {
          n.launch(0, k, {1, 64, 0});
          n.exchange();
        })
        .time_s;
  };
  // The 64 lines are in two sets of four ways, so only 8 lines are in flight at a time. Without
  // stalls, 32 lines would be in flight.
  EXPECT_GT(time("direct", true), 2 * time("direct", false));
  EXPECT_GT(time("direct", true), 2 * time("bypass", true));
}

TEST(treated_loads, machines_that_do_not_describe_it_are_refused) {
  node n(test::meshed(2, machine::protocol_kind::nvlink2), 2, [] {});
  n.treat_loads(kernel::parse_remote_loads("direct"));
  try {
    n.treat_loads(kernel::parse_remote_loads("dualopt"));
    ADD_FAILURE();
  } catch (const usage_error& e) {
    EXPECT_EQ(std::string(e.what()),
              "the machine has no hardware for remote loads; add a table "
              "[gpu.dualopt], as in 4x-r9nano, or use direct");
  }
}

}  // namespace
}  // namespace interlace::sim::treated_loads_tests
