// Batches of blocks on a driver whose GPUs are host memory. Every byte must arrive, in stream
// order. If a kernel must not copy a batch, the copier leaves the batch to the caller and gives the
// reason.
#include "cuda/transfer/block_copier.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "cuda/fake_driver.hpp"
#include "interlace/base/errors.hpp"

namespace interlace::cuda {
namespace {

using fake::kind;

std::uint64_t below(std::mt19937_64& random, std::uint64_t bound) { return random() % bound; }

// Two buffers with known contents, and functions that make batches from one buffer to the other.
struct pair_of_buffers {
  fake::driver& driver;
  std::uint64_t bytes;
  std::uint8_t* to;
  std::uint8_t* from;
  std::vector<std::uint8_t> expected;

  pair_of_buffers(fake::driver& on, kind target, kind source, std::uint64_t size, int gpu = 0)
      : driver(on),
        bytes(size),
        to(on.memory(target, gpu, size)),
        from(on.memory(source, gpu, size)),
        expected(to, to + size) {
    for (std::uint64_t at = 0; at < size; ++at)
      from[at] = static_cast<std::uint8_t>(at * 7 + at / 256);
  }
  void check() {
    driver.synchronize();
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), to));
    EXPECT_TRUE(driver.errors().empty()) << driver.errors().front();
  }
};

struct ends_of_blocks {
  std::vector<std::uint64_t> to, from, sizes;

  void add(pair_of_buffers& in, std::uint64_t to_at, std::uint64_t from_at, std::uint64_t bytes) {
    to.push_back(reinterpret_cast<std::uint64_t>(in.to) + to_at);
    from.push_back(reinterpret_cast<std::uint64_t>(in.from) + from_at);
    sizes.push_back(bytes);
    std::memcpy(in.expected.data() + to_at, in.from + from_at, bytes);
  }
  plan::block_list list() const {
    return {.to = {.numbers = to.data()},
            .from = {.numbers = from.data()},
            .sizes = sizes.data(),
            .count = to.size()};
  }
};

// Costs for which the given way is always the fastest.
plan::block_costs only(plan::block_way way, unsigned thread_blocks = 8) {
  plan::block_costs made;
  plan::block_class one{.bytes = 1, .ways = {}, .thread_blocks = thread_blocks};
  for (std::size_t at = 0; at < plan::block_ways; ++at)
    one.ways[at] = {at == static_cast<std::size_t>(way) ? 1.0 : 100.0, 0};
  for (auto& all : made.classes) all.push_back(one);
  return made;
}

TEST(block_copier, random_batches_arrive_in_stream_order) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    std::mt19937_64 random(seed);
    fake::driver driver(1, seed);
    const plan::block_costs costs =
        only(plan::block_way::kernel, 1 + static_cast<unsigned>(below(random, 20)));
    CUstream_st* const stream = driver.stream(0, below(random, 2) == 0);
    const in_context on(driver.table(), driver.context(0));
    const std::uint64_t form = below(random, 3);
    pair_of_buffers in(driver, form == 1 ? kind::pinned : kind::gpu,
                       form == 0 ? kind::pinned : kind::gpu, 1 << 20U);
    {
      block_copier copier(driver.table(), {}, costs);
      copier.prepare(driver.context(0));
      for (int batch = 0; batch < 4; ++batch) {
        ends_of_blocks all;
        const bool even = below(random, 2) == 0;
        const std::uint64_t size = even ? 16 * (1 + below(random, 64)) : 1 + below(random, 900);
        const std::uint64_t slot = 2048;
        std::vector<std::uint64_t> slots(in.bytes / slot);
        for (std::size_t at = 0; at < slots.size(); ++at) slots[at] = at;
        std::shuffle(slots.begin(), slots.end(), random);
        slots.resize(1 + below(random, slots.size()));
        for (const std::uint64_t at : slots) {
          const std::uint64_t shift = even ? 16 * below(random, 8) : below(random, 200);
          all.add(in, at * slot + shift,
                  (even ? 16 : 1) * below(random, (in.bytes - 1024) / (even ? 16 : 1)),
                  even || below(random, 3) != 0 ? size : below(random, 900));
        }
        const block_report report = copier.try_kernel(all.list(), stream);
        EXPECT_EQ(report.result, block_result::enqueued);
        // The caller may change the lists as soon as the call has returned.
        std::fill(all.to.begin(), all.to.end(), 0);
        std::fill(all.from.begin(), all.from.end(), 0);
      }
    }
    in.check();
    EXPECT_EQ(driver.live_modules(), 0);
  }
}

TEST(block_copier, index_lists_are_numbers_of_rows) {
  fake::driver driver(1, 3);
  const in_context on(driver.table(), driver.context(0));
  const plan::block_costs costs = only(plan::block_way::kernel);
  block_copier copier(driver.table(), {}, costs);
  pair_of_buffers in(driver, kind::gpu, kind::pinned, 1 << 20U);
  const std::vector<std::uint32_t> rows{7, 0, 255, 31};
  const std::uint64_t row = 4096;
  const plan::block_list list{.to = {.base = reinterpret_cast<std::uint64_t>(in.to), .scale = row},
                              .from = {.base = reinterpret_cast<std::uint64_t>(in.from),
                                       .scale = row,
                                       .numbers = rows.data(),
                                       .wide = false},
                              .bytes = row,
                              .count = rows.size()};
  EXPECT_EQ(copier.try_kernel(list, driver.stream(0, false)).result, block_result::enqueued);
  for (std::size_t at = 0; at < rows.size(); ++at)
    std::memcpy(in.expected.data() + at * row, in.from + rows[at] * row, row);
  in.check();
}

struct refusal {
  kind to, from;
  block_ends ends;
};

TEST(block_copier, memory_that_a_kernel_must_not_touch_is_left_to_the_caller) {
  for (const refusal& one : {refusal{kind::gpu, kind::pageable, block_ends::pageable},
                             refusal{kind::pageable, kind::gpu, block_ends::pageable},
                             refusal{kind::managed, kind::gpu, block_ends::managed},
                             refusal{kind::pinned, kind::pinned, block_ends::pageable}}) {
    fake::driver driver(1, 5);
    const in_context on(driver.table(), driver.context(0));
    const plan::block_costs costs = only(plan::block_way::kernel);
    block_copier copier(driver.table(), {}, costs);
    pair_of_buffers in(driver, one.to, one.from, 4096);
    ends_of_blocks all;
    for (std::uint64_t at = 0; at < 4; ++at) all.add(in, at * 1024, at * 1024, 512);
    in.expected.assign(in.to, in.to + in.bytes);
    const block_report report = copier.try_kernel(all.list(), driver.stream(0, false));
    EXPECT_EQ(report.result, block_result::memory);
    EXPECT_EQ(report.ends, one.ends);
    EXPECT_EQ(driver.calls("launch"), 0U);
    in.check();
  }
}

TEST(block_copier, every_block_is_looked_at) {
  fake::driver driver(2, 6);
  const in_context on(driver.table(), driver.context(0));
  const plan::block_costs costs = only(plan::block_way::kernel);
  block_copier copier(driver.table(), {}, costs);
  CUstream_st* const stream = driver.stream(0, false);
  pair_of_buffers in(driver, kind::gpu, kind::pinned, 1 << 16U);
  pair_of_buffers second(driver, kind::gpu, kind::pinned, 1 << 16U);
  pair_of_buffers far(driver, kind::gpu, kind::pinned, 1 << 16U, 1);
  const std::vector<std::uint8_t> pageable(4096);
  ends_of_blocks good;
  for (std::uint64_t at = 0; at < 64; ++at) {
    good.add(in, at * 1024, at * 512, 512);
    good.add(second, at * 1024, at * 512, 512);
  }
  EXPECT_EQ(copier.try_kernel(good.list(), stream).result, block_result::enqueued);
  // The copier asks the driver once for each allocation, not once for each block.
  const std::size_t asked = driver.calls("pointer_attributes");
  EXPECT_LE(asked, 16U);
  // For the next batch, the copier only asks for the ids of the allocations.
  EXPECT_EQ(copier.try_kernel(good.list(), stream).result, block_result::enqueued);
  EXPECT_EQ(driver.calls("pointer_attributes"), asked + asked / 2);
  in.check();
  second.check();
  const auto ends_with = [&](std::uint64_t to, std::uint64_t from, std::uint64_t bytes) {
    ends_of_blocks all = good;
    all.to[70] = to;
    all.from[70] = from;
    all.sizes[70] = bytes;
    return copier.try_kernel(all.list(), stream).ends;
  };
  const std::uint64_t to = good.to[70];
  const std::uint64_t from = good.from[70];
  EXPECT_EQ(ends_with(to, reinterpret_cast<std::uint64_t>(pageable.data()), 512),
            block_ends::pageable);
  EXPECT_EQ(ends_with(reinterpret_cast<std::uint64_t>(far.to), from, 512), block_ends::other_gpu);
  EXPECT_EQ(ends_with(from, from, 512), block_ends::mixed);
  EXPECT_EQ(ends_with(to, reinterpret_cast<std::uint64_t>(second.from) + second.bytes - 256, 512),
            block_ends::outside);
  EXPECT_EQ(driver.calls("launch"), 2U);
  driver.synchronize();
}

TEST(block_copier, what_is_known_of_an_allocation_ends_with_its_id) {
  known_allocations known;
  auto* const one = reinterpret_cast<CUctx_st*>(std::uintptr_t{16});
  auto* const other = reinterpret_cast<CUctx_st*>(std::uintptr_t{32});
  EXPECT_EQ(known.find(0, one), nullptr);
  known.add(7, one, {.begin = 100, .end = 200});
  known.add(0, one, {.begin = 1, .end = 2});
  ASSERT_NE(known.find(7, one), nullptr);
  EXPECT_EQ(known.find(7, one)->end, 200U);
  EXPECT_EQ(known.find(7, other), nullptr);
  EXPECT_EQ(known.find(0, one), nullptr);
  for (unsigned long long id = 8; id < 5000; ++id) {
    EXPECT_EQ(known.find(id, one), nullptr);
    known.add(id, one, {.begin = id, .end = id + 1});
    EXPECT_EQ(known.find(id, one)->begin, id);
  }
  EXPECT_EQ(known.find(7, one), nullptr);  // another allocation has taken the entry's place
}

TEST(block_copier, a_captured_stream_and_a_slower_kernel_are_left_to_the_caller) {
  fake::driver driver(1, 7);
  const in_context on(driver.table(), driver.context(0));
  const plan::block_costs kernel = only(plan::block_way::kernel);
  const plan::block_costs batch = only(plan::block_way::driver_batch);
  pair_of_buffers in(driver, kind::gpu, kind::pinned, 4096);
  ends_of_blocks all;
  all.add(in, 0, 0, 512);
  in.expected.assign(in.to, in.to + in.bytes);
  CUstream_st* const stream = driver.stream(0, false);
  block_copier first(driver.table(), {}, batch);
  const block_report report = first.try_kernel(all.list(), stream);
  EXPECT_EQ(report.result, block_result::another_way);
  EXPECT_EQ(report.choice.way, plan::block_way::driver_batch);
  EXPECT_EQ(report.bytes, 512U);
  block_copier second(driver.table(), {}, kernel);
  driver.begin_capture(stream);
  EXPECT_EQ(second.try_kernel(all.list(), stream).result, block_result::capturing);
  EXPECT_TRUE(driver.end_capture(stream) != nullptr);
  EXPECT_EQ(second.try_kernel({}, stream).result, block_result::nothing);
  in.check();
}

TEST(block_copier, remembers_that_a_driver_cannot_load_the_kernels) {
  fake::driver driver(1, 8);
  driver.refuse_kernels(13000);
  const in_context on(driver.table(), driver.context(0));
  const plan::block_costs costs = only(plan::block_way::kernel);
  pair_of_buffers in(driver, kind::gpu, kind::pinned, 4096);
  ends_of_blocks all;
  all.add(in, 0, 0, 1024);
  CUstream_st* const stream = driver.stream(0, false);
  block_copier copier(driver.table(), {}, costs);
  EXPECT_EQ(copier.try_kernel(all.list(), stream).result, block_result::no_kernels);
  EXPECT_EQ(copier.try_kernel(all.list(), stream).result, block_result::no_kernels);
  EXPECT_THROW(copier.prepare(driver.context(0)), device_error);
  EXPECT_EQ(driver.calls("module_load"), 1U);
}

TEST(block_copier, without_memory_nothing_is_enqueued) {
  fake::driver driver(1, 8);
  const in_context on(driver.table(), driver.context(0));
  const plan::block_costs costs = only(plan::block_way::kernel);
  pair_of_buffers in(driver, kind::gpu, kind::pinned, 1 << 20U);
  ends_of_blocks all;
  for (std::uint64_t at = 0; at < 1024; ++at) all.add(in, at * 1024, at * 1024, 1024);
  in.expected.assign(in.to, in.to + in.bytes);
  CUstream_st* const stream = driver.stream(0, false);
  block_copier copier(driver.table(), {.room_bytes = 1024}, costs);
  EXPECT_EQ(copier.try_kernel(all.list(), stream).result, block_result::no_room);
  block_copier failing(driver.table(), {}, costs);
  driver.fail("launch", 1, 1);
  EXPECT_THROW((void)failing.try_kernel(all.list(), stream), device_error);
  in.check();
  for (std::uint64_t at = 0; at < in.bytes; ++at) in.expected[at] = in.from[at];
  EXPECT_EQ(failing.try_kernel(all.list(), stream).result, block_result::enqueued);
  in.check();
}

TEST(block_copier, tries_again_after_a_failure_that_may_pass) {
  fake::driver driver(1, 8);
  const in_context on(driver.table(), driver.context(0));
  const plan::block_costs costs = only(plan::block_way::kernel);
  pair_of_buffers in(driver, kind::gpu, kind::pinned, 1 << 20U);
  ends_of_blocks all;
  for (std::uint64_t at = 0; at < 512; ++at) all.add(in, at * 1024, at * 1024, 1024);
  CUstream_st* const stream = driver.stream(0, false);
  block_copier copier(driver.table(), {.room_bytes = std::size_t{64} << 10U}, costs);
  driver.fail("module_load", 1, 1);
  EXPECT_EQ(copier.try_kernel(all.list(), stream).result, block_result::no_kernels);
  driver.fail("event_create", 1, 1);
  EXPECT_THROW((void)copier.try_kernel(all.list(), stream), device_error);
  // There is room for the lists of only one batch. No event tells when the kernel that uses this
  // room ends, so the second call waits for the kernel.
  driver.fail("event_record", 1, 1);
  EXPECT_EQ(copier.try_kernel(all.list(), stream).result, block_result::enqueued);
  EXPECT_EQ(copier.try_kernel(all.list(), stream).result, block_result::enqueued);
}

TEST(block_copier, an_abandoned_copier_does_not_call_the_driver) {
  fake::driver driver(1, 8);
  const plan::block_costs costs = only(plan::block_way::kernel);
  auto copier = std::make_unique<block_copier>(driver.table(), block_options{}, costs);
  copier->prepare(driver.context(0));
  const std::uint64_t before = driver.all_calls();
  copier->abandon();
  copier.reset();
  EXPECT_EQ(driver.all_calls(), before);
}

TEST(block_copier, rooms_for_lists_are_used_again_and_stay_bounded) {
  fake::driver driver(1, 9);
  driver.run_nothing_unasked();
  const in_context on(driver.table(), driver.context(0));
  const plan::block_costs costs = only(plan::block_way::kernel);
  pair_of_buffers in(driver, kind::gpu, kind::pinned, 1 << 20U);
  CUstream_st* const stream = driver.stream(0, false);
  block_copier copier(driver.table(), {.room_bytes = std::size_t{128} << 10U}, costs);
  ends_of_blocks all;
  for (std::uint64_t at = 0; at < 512; ++at) all.add(in, at * 2048, at * 1024, 1024);
  EXPECT_EQ(copier.try_kernel(all.list(), stream).result, block_result::enqueued);
  EXPECT_EQ(copier.try_kernel(all.list(), stream).result, block_result::enqueued);
  EXPECT_EQ(copier.try_kernel(all.list(), stream).result, block_result::no_room);
  in.check();
  for (int again = 0; again < 10; ++again) {
    EXPECT_EQ(copier.try_kernel(all.list(), stream).result, block_result::enqueued);
    driver.synchronize();
  }
  EXPECT_EQ(driver.calls("allocate_host"), 2U);
  in.check();
}

block_batch batch_of(const ends_of_blocks& all) {
  return {.dst = {.numbers = all.to.data()},
          .src = {.numbers = all.from.data()},
          .sizes = all.sizes.data(),
          .count = all.to.size()};
}

// If the driver fails after the copier has enqueued the kernel, the caller must not copy the batch
// again. If the driver fails before that, the copier must not enqueue anything.
TEST(block_copier, a_failure_of_the_driver_is_before_the_launch_or_none) {
  const plan::block_costs costs = only(plan::block_way::kernel);
  for (const char* function : {"event_create", "event_record", "launch", "allocate_host"}) {
    fake::driver driver(1, 10);
    driver.run_nothing_unasked();
    const in_context on(driver.table(), driver.context(0));
    pair_of_buffers in(driver, kind::gpu, kind::pinned, 1 << 20U);
    CUstream_st* const stream = driver.stream(0, false);
    ends_of_blocks all;
    for (std::uint64_t at = 0; at < 512; ++at) all.add(in, at * 2048, at * 1024, 1024);
    block_copier copier(driver.table(), {}, costs);
    driver.fail(function, 1, 1);
    bool enqueued = false;
    try {
      enqueued = copier.try_kernel(all.list(), stream).result == block_result::enqueued;
    } catch (const device_error&) {
    }
    driver.synchronize();
    EXPECT_EQ(std::equal(in.expected.begin(), in.expected.end(), in.to), enqueued) << function;
    EXPECT_EQ(enqueued, std::string(function) == "event_record") << function;
    EXPECT_EQ(copier.try_kernel(all.list(), stream).result, block_result::enqueued) << function;
    in.check();
  }
}

TEST(block_copier, a_failure_during_a_capture_leaves_no_kernel_without_its_lists) {
  for (const char* function :
       {"user_object_create", "graph_retain_user_object", "event_create", "launch"}) {
    fake::driver driver(1, 12);
    const in_context on(driver.table(), driver.context(0));
    const plan::block_costs costs = only(plan::block_way::kernel);
    pair_of_buffers in(driver, kind::gpu, kind::pinned, 1 << 20U);
    CUstream_st* const stream = driver.stream(0, false);
    ends_of_blocks all;
    for (std::uint64_t at = 0; at < 512; ++at) all.add(in, at * 2048, at * 1024, 1024);
    block_copier copier(driver.table(), {.room_bytes = std::size_t{64} << 10U}, costs);
    driver.begin_capture(stream);
    driver.fail(function, 1, 1);
    EXPECT_THROW((void)copier.copy(batch_of(all), stream), device_error) << function;
    CUgraph_st* const graph = driver.end_capture(stream);
    CUgraphExec_st* executable = nullptr;
    EXPECT_EQ(driver.table().graph_instantiate(&executable, graph, 0), 0);
    EXPECT_EQ(driver.table().graph_launch(executable, stream), 0);
    driver.synchronize();
    EXPECT_FALSE(std::equal(in.expected.begin(), in.expected.end(), in.to)) << function;
    EXPECT_EQ(driver.table().graph_exec_destroy(executable), 0);
    EXPECT_EQ(driver.table().graph_destroy(graph), 0);
    EXPECT_EQ(driver.live_user_objects(), 0U) << function;
    // The kernel frees the room for lists.
    EXPECT_EQ(copier.copy(batch_of(all), stream).way, blocks_way::kernel) << function;
    in.check();
  }
}

TEST(block_copier, every_way_copies_the_same_bytes) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    std::mt19937_64 random(seed);
    fake::driver driver(1, seed);
    const auto way = static_cast<plan::block_way>(below(random, plan::block_ways));
    const plan::block_costs costs = only(way, 1 + static_cast<unsigned>(below(random, 9)));
    const in_context on(driver.table(), driver.context(0));
    CUstream_st* const stream =
        below(random, 4) == 0 ? nullptr : driver.stream(0, below(random, 2) == 0);
    const bool up = below(random, 2) == 0;
    const bool pageable = below(random, 3) == 0;
    const kind host = pageable ? kind::pageable : kind::pinned;
    pair_of_buffers in(driver, up ? kind::gpu : host, up ? host : kind::gpu, 1 << 18U);
    block_copier copier(driver.table(), {.room_bytes = std::size_t{8} << 20U}, costs);
    ends_of_blocks all;
    for (std::uint64_t at = 0; at < 64; ++at)
      if (below(random, 2) == 0)
        all.add(in, at * 4096, below(random, in.bytes - 4096),
                below(random, 5) == 0 ? 0 : below(random, 4096));
    block_batch batch = batch_of(all);
    batch.stage_pageable = true;
    const copied_blocks copied = copier.copy(batch, stream);
    std::uint64_t bytes = 0;
    for (const std::uint64_t size : all.sizes) bytes += size;
    EXPECT_EQ(copied.bytes, bytes);
    blocks_way wanted = blocks_way::kernel;
    if (way == plan::block_way::copies) wanted = blocks_way::copies;
    // The driver refuses a batch on the legacy default stream.
    if (way == plan::block_way::driver_batch)
      wanted = stream == nullptr ? copied.way : blocks_way::driver_batch;
    if (pageable) wanted = blocks_way::staged;
    if (bytes == 0) wanted = blocks_way::nothing;
    EXPECT_EQ(copied.way, wanted);
    std::fill(all.to.begin(), all.to.end(), 0);
    in.check();
  }
}

TEST(block_copier, a_batch_that_the_driver_refuses_becomes_plain_copies) {
  fake::driver driver(1, 14);
  const in_context on(driver.table(), driver.context(0));
  const plan::block_costs costs = only(plan::block_way::driver_batch);
  pair_of_buffers in(driver, kind::gpu, kind::pinned, 1 << 16U);
  block_copier copier(driver.table(), {}, costs);
  CUstream_st* const stream = driver.stream(0, false);
  ends_of_blocks all;
  for (std::uint64_t at = 0; at < 16; ++at) all.add(in, at * 4096, at * 2048, 2048);
  driver.fail("copy_batch", 1, 1);
  EXPECT_EQ(copier.copy(batch_of(all), stream).way, blocks_way::copies);
  EXPECT_EQ(copier.copy(batch_of(all), stream).way, blocks_way::driver_batch);
  in.check();
}

TEST(block_copier, a_captured_batch_runs_again_and_its_graph_owns_the_lists) {
  fake::driver driver(1, 11);
  const in_context on(driver.table(), driver.context(0));
  const plan::block_costs costs = only(plan::block_way::kernel);
  pair_of_buffers in(driver, kind::gpu, kind::pinned, 1 << 20U);
  block_copier copier(driver.table(), {.room_bytes = std::size_t{64} << 10U}, costs);
  CUstream_st* const stream = driver.stream(0, false);
  ends_of_blocks all;
  for (std::uint64_t at = 0; at < 512; ++at) all.add(in, at * 2048, at * 1024, 1024);
  driver.begin_capture(stream);
  EXPECT_EQ(copier.copy(batch_of(all), stream).way, blocks_way::kernel);
  CUgraph_st* const graph = driver.end_capture(stream);
  EXPECT_EQ(driver.live_user_objects(), 1U);
  CUgraphExec_st* executable = nullptr;
  EXPECT_EQ(driver.table().graph_instantiate(&executable, graph, 0), 0);
  // The graph owns the only memory for lists.
  EXPECT_EQ(copier.copy(batch_of(all), stream).way, blocks_way::copies);
  for (int again = 0; again < 3; ++again) {
    for (std::uint64_t at = 0; at < in.bytes / 2; ++at)
      in.from[at] = static_cast<std::uint8_t>(in.from[at] + 1);
    for (std::uint64_t at = 0; at < 512; ++at)
      std::memcpy(in.expected.data() + at * 2048, in.from + at * 1024, 1024);
    EXPECT_EQ(driver.table().graph_launch(executable, stream), 0);
    in.check();
  }
  EXPECT_EQ(driver.table().graph_destroy(graph), 0);
  EXPECT_EQ(driver.live_user_objects(), 1U);
  EXPECT_EQ(driver.table().graph_exec_destroy(executable), 0);
  EXPECT_EQ(driver.live_user_objects(), 0U);
  EXPECT_EQ(copier.copy(batch_of(all), stream).way, blocks_way::kernel);
  in.check();
}

TEST(block_copier, numbers_on_the_gpu_are_read_when_the_batch_runs) {
  fake::driver driver(1, 12);
  driver.run_nothing_unasked();
  const in_context on(driver.table(), driver.context(0));
  const plan::block_costs costs = only(plan::block_way::copies);
  pair_of_buffers in(driver, kind::gpu, kind::pinned, 1 << 16U);
  block_copier copier(driver.table(), {}, costs);
  auto* const rows = reinterpret_cast<std::int64_t*>(driver.memory(kind::gpu, 0, 8 * 8));
  block_batch batch{.dst = {.base = in.to, .stride = 1024, .extent = in.bytes},
                    .src = {.base = in.from, .stride = 1024, .numbers = rows, .extent = in.bytes},
                    .bytes = 1024,
                    .count = 8,
                    .numbers_on_gpu = true};
  for (int at = 0; at < 8; ++at) rows[at] = at;
  EXPECT_EQ(copier.copy(batch, driver.stream(0, false)).way, blocks_way::kernel);
  for (int at = 0; at < 8; ++at) rows[at] = 8 * (7 - at);
  for (int at = 0; at < 8; ++at)
    std::memcpy(in.expected.data() + at * 1024, in.from + std::size_t{8} * (7 - at) * 1024, 1024);
  in.check();
  batch.src.extent = in.bytes + 1;
  EXPECT_THROW((void)copier.copy(batch, nullptr), usage_error);
  batch.src.extent = 0;
  EXPECT_THROW((void)copier.copy(batch, nullptr), usage_error);
}

std::string refusal_of(block_copier& copier, const block_batch& batch, CUstream_st* stream) {
  try {
    (void)copier.copy(batch, stream);
  } catch (const usage_error& error) {
    return error.what();
  }
  return "";
}

TEST(block_copier, wrong_batches_are_refused_with_the_block_and_the_reason) {
  fake::driver driver(1, 13);
  const in_context on(driver.table(), driver.context(0));
  const plan::block_costs costs = only(plan::block_way::kernel);
  pair_of_buffers in(driver, kind::gpu, kind::pinned, 1 << 16U);
  pair_of_buffers slow(driver, kind::gpu, kind::pageable, 1 << 16U);
  block_copier copier(driver.table(), {}, costs);
  CUstream_st* const stream = driver.stream(0, false);
  const std::vector<std::int64_t> rows{3, 64, 5};
  block_batch batch{
      .dst = {.base = in.to, .stride = 1024},
      .src = {.base = in.from, .stride = 1024, .numbers = rows.data(), .extent = in.bytes},
      .bytes = 1024,
      .count = 3};
  EXPECT_EQ(refusal_of(copier, batch, stream),
            "block 1 of a batch: with source number 64, the block ends at byte 66560, after the "
            "source's extent of 65536 bytes");
  batch.src.extent = 0;
  batch.src.stride = 1016;  // block 1 begins inside block 0
  EXPECT_EQ(refusal_of(copier, batch, stream),
            "a block of a batch reaches past the end of its allocation");
  batch.src.stride = 1024;
  const std::vector<std::int64_t> negative{3, -1, 5};
  batch.src.numbers = negative.data();
  EXPECT_NE(refusal_of(copier, batch, stream).find("block 1 of a batch has 1024 bytes"),
            std::string::npos);
  batch.src = {.base = slow.from, .stride = 1024};
  EXPECT_NE(refusal_of(copier, batch, stream).find("is not page-locked; page-lock the memory"),
            std::string::npos);
  batch.stage_pageable = true;
  driver.begin_capture(stream);
  EXPECT_NE(refusal_of(copier, batch, stream).find("cannot stage pageable memory"),
            std::string::npos);
  (void)driver.end_capture(stream);
  batch.dst = batch.src;
  EXPECT_NE(refusal_of(copier, batch, stream).find("both sides of a batch of blocks lie in the"),
            std::string::npos);
  batch.dst.number_bytes = 2;
  EXPECT_NE(refusal_of(copier, batch, stream).find("has 2 bytes; give 4 or 8"), std::string::npos);
  EXPECT_EQ(driver.calls("launch"), 0U);
  EXPECT_TRUE(driver.errors().empty());
}

}  // namespace
}  // namespace interlace::cuda
