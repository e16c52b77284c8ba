// A replay of a recorded simulated run must give the same results as that run.
#include "sim/replay.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "../../probes/bitonic.hpp"
#include "../../probes/sorted_sums.hpp"
#include "../../probes/spmv.hpp"
#include "../../probes/stencil.hpp"
#include "interlace/base/errors.hpp"
#include "interlace/sim/node.hpp"
#include "sim/described.hpp"
#include "sim/r9nano.hpp"
#include "sim/trace/temporary_file.hpp"
#include "sim/trace/writer.hpp"

namespace interlace::replay_tests {
namespace {

using kernel::mechanism;
using machine::protocol_kind;

// Compares all counts exactly, and the time to the picosecond.
void expect_same(const sim::replayed& again, const kernel::run_result& direct) {
  EXPECT_EQ(again.counters.accesses, direct.accesses);
  EXPECT_EQ(again.counters.remote_transactions(), direct.remote_transactions);
  const auto& c = again.counters;
  const std::uint64_t payload =
      c.stored_payload() + c.read_payload + again.copies.payload + again.exchanges.payload;
  const std::uint64_t wire =
      c.stored_wire() + c.read_wire + again.copies.wire + again.exchanges.wire;
  EXPECT_EQ(static_cast<double>(payload), direct.wire.useful + direct.wire.wasted);
  EXPECT_EQ(static_cast<double>(wire),
            direct.wire.useful + direct.wire.wasted + direct.wire.protocol);
  EXPECT_EQ(again.time_s, direct.time_s);
}

template <class Body>
void record_and_replay(const machine::machine& m, std::uint32_t devices, const Body& body,
                       mechanism how = mechanism::inline_stores) {
  const test::temporary_file file;
  kernel::run_result direct;
  {
    sim::node node(m, devices, [] {});
    node.record(file.path());
    direct = body(node);
    node.finish_recording();
  }
  const sim::trace::reader from(file.path());
  const auto again = sim::replay(from, m, how, [] {});
  EXPECT_GT(again.counters.accesses, 0U);
  EXPECT_EQ(again.totals, from.stated());
  expect_same(again, direct);
}

TEST(replay, is_the_run_again) {
  constexpr std::uint32_t columns = 150;
  constexpr std::uint32_t rows = 41;
  const std::vector<float> start(std::size_t{columns} * rows, 1.0F);
  for (const auto kind : {protocol_kind::nvlink2, protocol_kind::pcie4}) {
    for (const auto how :
         {mechanism::inline_stores, mechanism::bulk_copy, mechanism::split, mechanism::serial_copy,
          mechanism::infinite_bandwidth, mechanism::write_combining, mechanism::finepack,
          mechanism::config_packet}) {
      for (const std::uint32_t devices : {1U, 3U}) {
        SCOPED_TRACE(std::string(kernel::mechanism_name(how)) + " on " + std::to_string(devices));
        auto m = test::meshed(4, kind);
        if (devices == 3) m.gpu.warp_width = 64;
        const auto body = [&](auto& node) {
          probe::stencil s(node, columns, rows, how);
          s.set(start);
          // There are two runs. The second run starts after the first run has ended.
          kernel::run_result sum = node.run([&] { s.enqueue_step(); });
          const double first = sum.time_s;
          sum = node.run([&] {
            for (int k = 0; k < 3; ++k) s.enqueue_step();
          });
          sum.time_s = 1e-12 * std::round(1e12 * first + 1e12 * sum.time_s);
          return sum;
        };
        record_and_replay(m, devices, body, sim::replays(how) ? how : mechanism::inline_stores);
      }
    }
  }
}

TEST(replay, shared_memory_shuffles_atomics_and_library_calls) {
  record_and_replay(test::meshed(2, protocol_kind::nvlink2), 1, [](auto& node) {
    const std::size_t n = 4096;
    auto array = node.template allocate<std::uint32_t>(0, n);
    std::mt19937 random(1);
    std::vector<std::uint32_t> keys(n);
    std::generate(keys.begin(), keys.end(), [&] { return static_cast<std::uint32_t>(random()); });
    node.upload(array, keys);
    const auto sums = probe::make_sorted_sums(node, 0, 1000);
    return node.run([&] {
      probe::enqueue_bitonic_sort(node, 0, array);
      probe::enqueue_sorted_sums(node, 0, sums, 2);
    });
  });
  const auto matrix = probe::random_matrix(500, 6, 1);
  record_and_replay(test::meshed(3, protocol_kind::pcie3), 3, [&](auto& node) {
    probe::spmv work(node, matrix, mechanism::inline_stores);
    work.set(std::vector<float>(500, 1.0F));
    return node.run([&] {
      for (int k = 0; k < 2; ++k) work.enqueue_step();
    });
  });
}

struct wide {
  std::array<float, 9> values;
};
struct read_wide {
  local<const wide> from;
  local<float> to;
  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      const auto i = lane.global_index();
      lane.store(to, i, lane.load(from, i).values[3]);
    });
  }
};

// Elements have 36 bytes, so some elements begin in one line and end in the next line.
TEST(replay, elements_that_cross_lines) {
  record_and_replay(test::meshed(1, protocol_kind::nvlink2), 1, [](auto& node) {
    const auto from = node.template allocate<wide>(0, 256);
    const auto to = node.template allocate<float>(0, 256);
    return node.run([&] { node.launch(0, read_wide{from, to}, {2, 128, 0}); });
  });
}

TEST(replay, what_cannot_be_recorded_is_refused) {
  const test::temporary_file file;
  {
    sim::node node(test::meshed(2, protocol_kind::nvlink2), 2, [] {});
    node.record(file.path());
    EXPECT_THROW(node.allocate_unified<float>(1), usage_error);
    probe::stencil s(node, 64U, 32U, mechanism::polling);
    EXPECT_THROW(node.run([&] { s.enqueue_step(); }), usage_error);
  }
  // The reader refuses an incomplete trace.
  EXPECT_THROW(sim::trace::reader(file.path()), usage_error);
  sim::node node(test::meshed(1, protocol_kind::nvlink2), 1, [] {});
  node.record(file.path());
  EXPECT_THROW(node.finish_recording(), usage_error);
  node.run([] {});
  EXPECT_THROW(node.allocate<float>(0, 1), model_error);
}

TEST(replay, what_a_machine_cannot_run_is_refused) {
  const test::temporary_file file;
  {
    sim::node node(test::meshed(2, protocol_kind::nvlink2), 2, [] {});
    node.record(file.path());
    probe::stencil s(node, 64U, 32U, mechanism::inline_stores);
    s.set(std::vector<float>(64 * 32, 1.0F));
    node.run([&] { s.enqueue_step(); });
    node.finish_recording();
  }
  const sim::trace::reader from(file.path());
  EXPECT_THROW(
      sim::replay(from, test::meshed(1, protocol_kind::nvlink2), mechanism::inline_stores, [] {}),
      usage_error);
  EXPECT_THROW(
      sim::replay(from, test::meshed(2, protocol_kind::nvlink2), mechanism::bulk_copy, [] {}),
      usage_error);
  auto small = test::meshed(2, protocol_kind::nvlink2);
  small.gpu.max_warps = 1;
  EXPECT_THROW(sim::replay(from, small, mechanism::inline_stores, [] {}), usage_error);
  auto little = test::meshed(2, protocol_kind::nvlink2);
  little.gpu.dram.bytes = 4096;
  EXPECT_THROW(sim::replay(from, little, mechanism::inline_stores, [] {}), usage_error);
  auto apart = test::meshed(2, protocol_kind::nvlink2);
  apart.links.clear();
  EXPECT_THROW(sim::replay(from, apart, mechanism::inline_stores, [] {}), usage_error);
}

TEST(replay, blocks_that_do_nothing_have_a_bound) {
  const test::temporary_file file;
  sim::trace::writer to(file.path(), sim::trace::header{});
  to.program(sim::trace::launch{0, sim::trace::max_blocks, 32, 0, "k", {}});
  to.finish();
  const sim::trace::reader from(file.path());
  EXPECT_THROW(
      sim::replay(from, test::meshed(1, protocol_kind::nvlink2), mechanism::inline_stores, [] {}),
      usage_error);
}

TEST(replay, pages_smaller_than_those_that_are_translated) {
  const test::temporary_file file;
  sim::trace::header h;
  h.gpus = 4;
  h.warp_width = 64;
  h.ranges.push_back({0, 1 << 20, 0, 4096});
  sim::trace::writer(file.path(), h).finish();
  const sim::trace::reader from(file.path());
  auto m = test::r9nano();
  EXPECT_EQ(sim::replay(from, m, mechanism::inline_stores, [] {}).counters.accesses, 0U);
  m.gpu.tlb.page_bytes = 64 << 10;
  try {
    sim::replay(from, m, mechanism::inline_stores, [] {});
    FAIL();
  } catch (const usage_error& e) {
    EXPECT_STREQ(e.what(),
                 "the trace has pages of 4096 bytes; machine r9nano translates addresses by pages "
                 "of 65536");
  }
}

}  // namespace
}  // namespace interlace::replay_tests
