// The copy engine as a whole, on a driver whose GPUs are host memory. Bytes must arrive in the
// order that CUDA's streams promise, no matter which executor copies them.
#include "cuda/transfer/copy_engine.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "cuda/copy_world.hpp"
#include "interlace/base/errors.hpp"
#include "plan/random_machine.hpp"

namespace interlace::copy_engine_tests {
namespace {

// Each stream has its own buffers and copies between them. From time to time, a stream waits for
// another stream and then uses the buffers of that stream.
void run_random_program(std::uint64_t seed, copy_statistics& total) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const bool regular = below(random, 2) == 0;
  machine::machine on = regular ? mesh(2 + static_cast<std::uint32_t>(below(random, 3)))
                                : slowed(plan::random_machine(random));
  copy_options options = options_of(static_cast<copy_executor>(below(random, 4)));
  options.graphs = 1 + static_cast<std::uint32_t>(below(random, 6));
  if (below(random, 3) == 0) options.staging_bytes = std::uint64_t{8} << 10U;
  const auto gpus = static_cast<int>(on.gpu_count);
  world in(std::move(on), options, seed + 1);
  if (below(random, 4) == 0) in.step_ns = 1'000;  // with a slow clock, messages overlap in time
  const auto& table = in.driver.table();

  constexpr std::uint64_t bytes = 40'000;
  struct user {
    CUstream_st* stream = nullptr;
    int gpu = 0;
    bool blocking = true;
    std::vector<buffer> buffers;
  };
  std::vector<user> users(1 + below(random, 5));
  for (std::size_t at = 0; at < users.size(); ++at) {
    const int gpu = static_cast<int>(below(random, static_cast<std::uint64_t>(gpus)));
    users[at].gpu = at < 2 ? 0 : gpu;
    users[at].blocking = at < 2 || below(random, 2) == 0;
    users[at].stream = at == 0   ? nullptr
                       : at == 1 ? reinterpret_cast<CUstream_st*>(cuda::per_thread_stream)
                                 : in.driver.stream(gpu, users[at].blocking);
    for (int place = 0; place <= gpus; ++place)
      users[at].buffers.push_back(make_buffer(
          in, place == gpus ? (below(random, 8) == 0 ? kind::pageable : kind::pinned) : kind::gpu,
          place % gpus, bytes, random));
  }
  const std::uint64_t sizes = 1 + below(random, 4);  // few sizes, so that shapes are repeated
  for (int message = 0; message < 40; ++message) {
    user& by = users[below(random, users.size())];
    const std::size_t from = below(random, by.buffers.size());
    const std::size_t to = below(random, by.buffers.size());
    if (from == to) {
      user& other = users[below(random, users.size())];
      if (&by == &other) continue;
      // The default stream and the blocking streams of its GPU wait for each other without events.
      const bool ordered = by.gpu == 0 && other.gpu == 0 && by.blocking && other.blocking &&
                           (by.stream == nullptr || other.stream == nullptr);
      if (!ordered || below(random, 4) == 0) {
        wait_for(in, other.stream, by.stream);
        wait_for(in, by.stream, other.stream);
      }
      std::swap(by.buffers, other.buffers);
      continue;
    }
    if (below(random, 12) == 0) {  // allocates new memory at the same address
      in.driver.synchronize();
      in.driver.allocate_again(by.buffers[to].memory);
      fill(by.buffers[to], random);
    }
    const std::uint64_t size =
        bytes / 2 / (1 + below(random, sizes)) - (below(random, 8) == 0 ? 1 : 0);
    const std::uint64_t from_offset = below(random, bytes - size);
    const std::uint64_t to_offset = below(random, bytes - size);
    in.copy(by.buffers[to].memory + to_offset, by.buffers[from].memory + from_offset, size,
            by.stream);
    std::memcpy(by.buffers[to].expected.data() + to_offset,
                by.buffers[from].expected.data() + from_offset, size);
    CUctx_st* current = nullptr;
    table.current(&current);
    ASSERT_EQ(current, in.driver.context(0));
  }
  in.driver.synchronize();
  for (const user& one : users)
    for (const buffer& each : one.buffers)
      ASSERT_EQ(std::memcmp(each.memory, each.expected.data(), each.expected.size()), 0);
  const copy_statistics counted = in.engine->statistics();
  total.direct += counted.direct;
  total.streams += counted.streams;
  total.graphs += counted.graphs;
  total.hits += counted.hits;
  total.updates += counted.updates;
  total.evictions += counted.evictions;
  in.engine.reset();
  in.expect_no_errors();
}

TEST(copy_engine, random_programs_on_many_streams_move_every_byte_in_stream_order) {
  copy_statistics total;
  for (std::uint64_t seed = 0; seed < 50 && !::testing::Test::HasFailure(); ++seed)
    run_random_program(seed, total);
  // These bounds show that all cases were reached.
  EXPECT_GT(total.direct, 300U);
  EXPECT_GT(total.streams, 300U);
  EXPECT_GT(total.graphs, 100U);
  EXPECT_GT(total.hits, 20U);
  EXPECT_GT(total.updates, 50U);
  EXPECT_GT(total.evictions, 10U);
}

TEST(copy_engine, default_streams_keep_their_order_with_blocking_streams) {
  for (const copy_executor executor : {copy_executor::streams, copy_executor::graphs})
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
      SCOPED_TRACE(seed);
      four_gpus in(options_of(executor), seed);
      CUstream_st* const blocking = in.driver.stream(0, true);
      auto* const per_thread = reinterpret_cast<CUstream_st*>(cuda::per_thread_stream);
      for (CUstream_st* const other : {blocking, per_thread}) {
        in.move(in.gpu[1], in.gpu[0], nullptr);
        in.move(in.gpu[2], in.gpu[1], other);
        in.move(in.host, in.gpu[2], nullptr);
        in.move(in.gpu[0], in.gpu[3], other);
        in.move(in.gpu[1], in.gpu[0], nullptr);
      }
      in.expect_right(in.host);
      in.expect_right(in.gpu[1]);
      EXPECT_GT(in.engine->statistics().streams + in.engine->statistics().graphs, 6U);
      in.expect_no_errors();
    }
}

// The driver gives the default streams of all GPUs the same number.
TEST(copy_engine, default_streams_of_two_gpus_and_of_two_threads_are_different_streams) {
  for (const copy_executor executor : {copy_executor::streams, copy_executor::graphs})
    for (auto* const stream :
         {static_cast<CUstream_st*>(nullptr), reinterpret_cast<CUstream_st*>(cuda::legacy_stream),
          reinterpret_cast<CUstream_st*>(cuda::per_thread_stream)}) {
      four_gpus in(options_of(executor));
      in.driver.run_nothing_unasked();
      buffer second = make_buffer(in, kind::gpu, 2, four_gpus::bytes, in.random);
      buffer third = make_buffer(in, kind::gpu, 2, four_gpus::bytes, in.random);
      in.move(in.gpu[2], in.gpu[0], stream);
      {
        const cuda::in_context on(in.driver.table(), in.driver.context(1));
        in.move(second, in.gpu[0], stream);
      }
      std::thread([&] {
        const cuda::in_context on(in.driver.table(), in.driver.context(0));
        in.move(third, in.gpu[0], stream);
      }).join();
      in.expect_right(in.gpu[2]);
      in.expect_right(second);
      in.expect_right(third);
      in.expect_no_errors();
    }
}

TEST(copy_engine, nothing_is_no_copy_and_overlapping_ranges_are_refused) {
  four_gpus in(options_of(copy_executor::automatic));
  in.copy(in.gpu[1].memory, in.gpu[0].memory, 0, nullptr);
  EXPECT_EQ(in.driver.calls("copy"), 0U);
  EXPECT_THROW(in.copy(in.gpu[0].memory + 1, in.gpu[0].memory, 2, nullptr), usage_error);
  EXPECT_THROW(in.copy(in.gpu[0].memory, in.gpu[0].memory, 1, nullptr), usage_error);
  in.copy(in.gpu[0].memory + 2, in.gpu[0].memory, 2, nullptr);
  EXPECT_EQ(in.engine->statistics().bytes, 2U);
  copy_options none;
  none.graphs = 0;
  EXPECT_THROW(copy_engine(in.driver.table(), none), usage_error);
}

TEST(copy_engine, a_driver_that_fails_anywhere_is_an_error_and_the_next_message_arrives) {
  const std::vector<std::string> functions{
      "pointer_attributes",  "allocate",       "stream_create", "stream_wait",
      "event_create",        "event_record",   "copy",          "set_bytes",
      "graph_create",        "graph_add_copy", "graph_launch",  "graph_instantiate",
      "graph_exec_set_copy", "event_query",    "push",          "graph_exec_destroy"};
  constexpr std::uint64_t bytes = four_gpus::bytes / 4;
  std::size_t failed = 0;
  for (const std::string& function : functions)
    for (const copy_executor executor : {copy_executor::streams, copy_executor::graphs})
      for (const int nth : {1, 5}) {
        SCOPED_TRACE(function + " " + std::to_string(nth));
        four_gpus in(options_of(executor), static_cast<std::uint64_t>(nth));
        CUstream_st* const stream = in.driver.stream(0, false);
        CUstream_st* const second = in.driver.stream(1, true);
        in.engine->prepare();
        in.driver.fail(function, nth, 1);
        for (int message = 0; message < 4; ++message) {
          try {
            in.copy(in.gpu[1].memory, in.gpu[0].memory, bytes, stream);
            in.copy(in.gpu[3].memory, in.gpu[2].memory, bytes - 1, second);
          } catch (const device_error& error) {
            EXPECT_NE(std::string(error.what()).find("failed: FAKE"), std::string::npos);
            ++failed;
          }
        }
        in.driver.fail(function, 0, 0);
        in.move(in.gpu[1], in.gpu[0], stream);
        in.move(in.host, in.gpu[1], stream);
        in.expect_right(in.host);
        in.engine.reset();
        in.expect_no_errors();
      }
  EXPECT_GT(failed, 25U);
}

TEST(copy_engine, a_machine_that_cannot_be_found_makes_copies_direct) {
  four_gpus in(options_of(copy_executor::automatic));
  std::vector<std::string> said;
  copy_engine engine(
      in.driver.table(), in.options,
      []() -> cuda::copy_machine { throw usage_error("no GPU answers"); },
      [&](const std::string& sentence) { said.push_back(sentence); });
  for (int message = 0; message < 3; ++message)
    engine.copy(address(in.gpu[1].memory), address(in.gpu[0].memory), four_gpus::bytes, nullptr);
  EXPECT_EQ(engine.statistics().direct, 3U);
  EXPECT_EQ(said, std::vector<std::string>{"all copies are direct: no GPU answers"});
}

TEST(copy_engine, a_thread_without_a_context_copies_as_well) {
  four_gpus in(options_of(copy_executor::automatic));
  CUstream_st* const stream = in.driver.stream(2, false);
  std::thread([&] {
    in.move(in.gpu[1], in.gpu[0], nullptr);
    in.move(in.gpu[2], in.gpu[3], stream);
  }).join();
  in.expect_right(in.gpu[1]);
  in.expect_right(in.gpu[2]);
  in.expect_no_errors();
}

TEST(copy_engine, threads_share_an_engine) {
  for (const copy_executor executor : {copy_executor::automatic, copy_executor::graphs}) {
    copy_options options = options_of(executor);
    options.graphs = 4;
    world in(mesh(4), options, 9);
    constexpr std::size_t threads = 4;
    std::vector<std::vector<buffer>> memory(threads);
    std::mt19937_64 random(3);
    for (std::size_t thread = 0; thread < threads; ++thread)
      for (int gpu = 0; gpu < 4; ++gpu)
        memory[thread].push_back(make_buffer(in, kind::gpu, gpu, 30'000, random));
    std::vector<std::thread> running;
    for (std::size_t thread = 0; thread < threads; ++thread)
      running.emplace_back([&, thread] {
        in.driver.table().push(in.driver.context(0));
        std::mt19937_64 own(thread);
        CUstream_st* const stream = in.driver.stream(static_cast<int>(thread), false);
        for (int message = 0; message < 30; ++message) {
          buffer& to = memory[thread][own() % 4];
          buffer& from = memory[thread][own() % 4];
          const std::uint64_t size = 30'000 - own() % 2 * 10'000;
          if (&to == &from) continue;
          in.copy(to.memory, from.memory, size, stream);
          std::memcpy(to.expected.data(), from.expected.data(), size);
        }
      });
    for (std::thread& one : running) one.join();
    in.driver.synchronize();
    for (const auto& of_thread : memory)
      for (const buffer& one : of_thread)
        EXPECT_EQ(std::memcmp(one.memory, one.expected.data(), one.expected.size()), 0);
    EXPECT_GT(in.engine->statistics().graphs + in.engine->statistics().streams, 10U);
    in.engine.reset();
    in.expect_no_errors();
  }
}

TEST(copy_engine, remarks_about_the_machine_appear_once) {
  for (const std::uint32_t gpus : {1U, 4U}) {  // with one GPU, there is no relay
    world in(mesh(gpus), options_of(copy_executor::automatic), 1);
    in.remarks = {"a GPU is hidden"};
    for (int turn = 0; turn < 3; ++turn) in.engine->prepare();
    EXPECT_EQ(in.reports, in.remarks);
  }
}

}  // namespace
}  // namespace interlace::copy_engine_tests
