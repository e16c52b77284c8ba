// The runner reuses executable graphs for messages with other addresses. Only one message at a time
// may use a byte of staging memory.
#include "cuda/transfer/copy_runner.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "cuda/copy_world.hpp"

namespace interlace::copy_engine_tests {
namespace {

TEST(copy_runner, messages_of_one_shape_on_many_streams_have_an_executable_each) {
  constexpr std::size_t window = 8;
  for (std::uint64_t seed = 0; seed < 2; ++seed) {
    copy_options options = options_of(copy_executor::graphs);
    options.staging_bytes = std::uint64_t{8} << 20U;
    four_gpus in(options, seed);
    std::vector<buffer> targets;
    std::vector<CUstream_st*> streams;
    for (std::size_t at = 0; at < window; ++at) {
      targets.push_back(make_buffer(in, kind::gpu, 1, four_gpus::bytes, in.random));
      streams.push_back(in.driver.stream(0, false));
    }
    for (int round = 0; round < 3; ++round)
      for (std::size_t at = 0; at < window; ++at) in.move(targets[at], in.gpu[0], streams[at]);
    in.driver.synchronize();
    for (const buffer& one : targets) in.expect_right(one);
    const copy_statistics counted = in.engine->statistics();
    EXPECT_EQ(counted.graphs, 3 * window);
    EXPECT_EQ(counted.hits + counted.misses, 3 * window);
    EXPECT_LE(counted.executables, window);
    EXPECT_GE(counted.hits, 2 * window);  // at least all messages on this stream
    EXPECT_EQ(counted.launches, 3 * window);
    in.expect_no_errors();
  }
}

TEST(copy_runner, other_addresses_of_one_shape_only_change_nodes) {
  four_gpus in(options_of(copy_executor::graphs));
  CUstream_st* const stream = in.driver.stream(0, false);
  buffer other = make_buffer(in, kind::gpu, 1, four_gpus::bytes, in.random);
  in.move(in.gpu[1], in.gpu[0], stream);
  const copy_statistics first = in.engine->statistics();
  EXPECT_EQ(first.misses, 1U);
  EXPECT_GT(first.nodes, 2U);
  in.move(in.gpu[1], in.gpu[0], stream);
  EXPECT_EQ(in.engine->statistics().updates, 0U);
  in.move(other, in.gpu[0], stream);
  const copy_statistics last = in.engine->statistics();
  EXPECT_GT(last.updates, 0U);
  // The runner updated only the nodes that write the destination.
  EXPECT_LT(last.updates, first.nodes);
  EXPECT_EQ(last.nodes, first.nodes);
  EXPECT_EQ(last.hits, 2U);
  // A destination on another GPU gives the message another shape.
  in.move(in.gpu[2], in.gpu[0], stream);
  EXPECT_EQ(in.engine->statistics().misses, 2U);
  in.expect_right(other);
  in.expect_right(in.gpu[2]);
  in.expect_no_errors();
}

TEST(copy_runner, other_memory_at_the_same_address_changes_nodes) {
  for (const bool of_pool : {false, true}) {
    four_gpus in(options_of(copy_executor::graphs));
    CUstream_st* const stream = in.driver.stream(0, false);
    const kind what = of_pool ? kind::pool_gpu : kind::virtual_gpu;
    buffer shared = make_buffer(in, what, 1, four_gpus::bytes, in.random);
    for (int gpu = 0; gpu < 4; ++gpu) in.driver.give_access(shared.memory, gpu);
    for (buffer* const end : {&in.gpu[0], &in.gpu[1], &in.host, &shared}) {
      buffer& from = end == &in.gpu[1] ? in.gpu[2] : in.gpu[1];
      for (int message = 0; message < 3; ++message) {
        in.move(end == &shared ? in.gpu[0] : from, *end, stream);
        in.move(*end, end == &shared ? in.gpu[0] : from, stream);
        in.driver.synchronize();
        in.driver.allocate_again(end->memory);
        fill(*end, in.random);
      }
      in.move(*end, end == &shared ? in.gpu[0] : from, stream);
      in.expect_right(*end);
    }
    const copy_statistics counted = in.engine->statistics();
    EXPECT_EQ(counted.graphs, counted.hits + counted.misses);
    EXPECT_GT(counted.hits, 16U);
    EXPECT_EQ(in.driver.calls("graph_launch"), counted.launches);  // the driver refused no launch
    in.expect_no_errors();
  }
}

TEST(copy_runner, an_executable_that_the_driver_holds_to_be_stale_is_set_again) {
  four_gpus in(options_of(copy_executor::graphs));
  CUstream_st* const stream = in.driver.stream(0, false);
  in.move(in.gpu[1], in.gpu[0], stream);
  in.driver.synchronize();
  in.driver.make_stale();  // neither address nor allocation number shows that the graph is stale
  in.move(in.gpu[1], in.gpu[0], stream);
  in.expect_right(in.gpu[1]);
  EXPECT_EQ(in.driver.calls("graph_launch"), 3U);
  EXPECT_EQ(in.engine->statistics().misses, 1U);
  in.expect_no_errors();
}

TEST(copy_runner, no_more_executables_are_kept_than_are_allowed) {
  copy_options options = options_of(copy_executor::graphs);
  options.graphs = 3;
  four_gpus in(options);
  CUstream_st* const stream = in.driver.stream(0, false);
  for (const int pick : {1, 2, 3, 1, 2, 3, 3, 3}) {
    in.move(in.gpu[static_cast<std::size_t>(pick)], in.gpu[0], stream);
    in.move(in.host, in.gpu[static_cast<std::size_t>(pick)], stream);
    EXPECT_LE(in.engine->statistics().executables, 3U);
  }
  EXPECT_GT(in.engine->statistics().evictions, 2U);
  in.expect_right(in.host);
  in.engine.reset();
  in.expect_no_errors();
}

// The test launches a captured graph while other messages run, and then destroys the graph.
TEST(copy_runner, captured_messages_own_their_staging_memory_until_their_graph_ends) {
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    SCOPED_TRACE(seed);
    four_gpus in(options_of(copy_executor::automatic), seed);
    const auto& table = in.driver.table();
    CUstream_st* const stream = in.driver.stream(0, false);
    CUstream_st* const beside = in.driver.stream(2, false);
    in.engine->prepare();
    in.driver.begin_capture(stream);
    // Each message in the graph reads what the previous message wrote.
    in.copy(in.gpu[1].memory, in.gpu[0].memory, four_gpus::bytes, stream);
    in.copy(in.host.memory, in.gpu[1].memory, four_gpus::bytes, stream);
    // The capture does not include this call. The call may make queries that would end a capture of
    // its stream.
    in.move(in.gpu[3], in.gpu[2], beside);
    CUgraph_st* const graph = in.driver.end_capture(stream);
    EXPECT_EQ(in.engine->statistics().captured, 2U);
    CUgraphExec_st* executable = nullptr;
    ASSERT_EQ(table.graph_instantiate(&executable, graph, 0), 0);
    table.graph_destroy(graph);
    EXPECT_EQ(in.driver.live_user_objects(), 2U);
    for (int launch = 0; launch < 3; ++launch) {
      in.driver.synchronize();
      fill(in.gpu[0], in.random);
      ASSERT_EQ(table.graph_launch(executable, stream), 0);
      for (int more = 0; more < 4; ++more) in.move(in.gpu[3], in.gpu[2], beside);
      in.driver.synchronize();
      in.gpu[1].expected = in.host.expected = in.gpu[0].expected;
      in.expect_right(in.gpu[1]);
      in.expect_right(in.host);
    }
    table.graph_exec_destroy(executable);
    EXPECT_EQ(in.driver.live_user_objects(), 0U);
    const std::uint64_t reserved = in.engine->statistics().staging_bytes;
    in.move(in.gpu[1], in.gpu[0], stream);  // uses the memory that the graph owned
    in.expect_right(in.gpu[1]);
    EXPECT_EQ(in.engine->statistics().staging_bytes, reserved);
    in.engine.reset();
    in.expect_no_errors();
  }
}

TEST(copy_runner, staging_memory_of_a_graph_that_outlives_the_engine_stays) {
  four_gpus in(options_of(copy_executor::automatic));
  CUstream_st* const stream = in.driver.stream(0, false);
  in.driver.begin_capture(stream);
  in.copy(in.gpu[1].memory, in.gpu[0].memory, four_gpus::bytes, stream);
  CUgraph_st* const graph = in.driver.end_capture(stream);
  in.gpu[1].expected = in.gpu[0].expected;
  in.engine.reset();
  CUgraphExec_st* executable = nullptr;
  ASSERT_EQ(in.driver.table().graph_instantiate(&executable, graph, 0), 0);
  ASSERT_EQ(in.driver.table().graph_launch(executable, stream), 0);
  in.expect_right(in.gpu[1]);
  in.driver.table().graph_exec_destroy(executable);
  in.driver.table().graph_destroy(graph);
  EXPECT_EQ(in.driver.live_user_objects(), 0U);
  // The destructor of a later engine frees the memory.
  const std::uint64_t freed = in.driver.calls("free");
  (void)copy_engine(in.driver.table(), in.options);
  EXPECT_GT(in.driver.calls("free"), freed);
  in.expect_no_errors();
}

TEST(copy_runner, exhausted_staging_memory_makes_copies_direct_and_says_so_once) {
  copy_options options = options_of(copy_executor::streams);
  options.staging_bytes = 40'000;
  four_gpus in(options);
  in.driver.run_nothing_unasked();
  std::vector<buffer> targets;
  for (int at = 0; at < 40; ++at)
    targets.push_back(make_buffer(in, kind::gpu, 1, four_gpus::bytes, in.random));
  for (buffer& one : targets) in.move(one, in.gpu[0], in.driver.stream(0, false));
  for (const buffer& one : targets) in.expect_right(one);
  EXPECT_GT(in.engine->statistics().direct, 0U);
  EXPECT_GT(in.engine->statistics().streams, 0U);
  EXPECT_LE(in.engine->statistics().staging_bytes, 5 * 40'000U);
  ASSERT_GE(in.reports.size(), 1U);
  EXPECT_NE(in.reports[0].find("INTERLACE_COPY_STAGING"), std::string::npos) << in.reports[0];
  EXPECT_EQ(std::set<std::string>(in.reports.begin(), in.reports.end()).size(), in.reports.size());
  in.expect_no_errors();
}

TEST(copy_runner, without_memory_for_staging_copies_are_direct) {
  four_gpus in(options_of(copy_executor::graphs));
  in.driver.forbid_memory(true);
  CUstream_st* const stream = in.driver.stream(0, false);
  in.move(in.gpu[1], in.gpu[0], stream);
  in.move(in.gpu[1], in.gpu[0], stream);
  in.expect_right(in.gpu[1]);
  EXPECT_EQ(in.engine->statistics().direct, 2U);
  EXPECT_EQ(in.reports.size(), 1U);
  in.driver.forbid_memory(false);
  in.move(in.gpu[1], in.gpu[0], stream);
  EXPECT_EQ(in.engine->statistics().graphs, 1U);
  in.expect_no_errors();
}

}  // namespace
}  // namespace interlace::copy_engine_tests
