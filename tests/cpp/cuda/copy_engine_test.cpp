// The copy engine on a driver that runs on host memory: whatever programs enqueue arrives as CUDA's
// order of streams says, whichever executor runs it, and staging memory is used by one message at a
// time.
#include "cuda/transfer/copy_engine.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/errors.hpp"
#include "cuda/copy_world.hpp"
#include "plan/random_machine.hpp"

namespace interlace::copy_engine_tests {
namespace {

// Streams with memory of their own, which they copy to and fro; now and then one waits for another
// and takes over its memory.
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
  if (below(random, 4) == 0) in.step_ns = 1'000;  // messages meet
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
  const std::uint64_t sizes = 1 + below(random, 4);  // few: shapes come again
  for (int message = 0; message < 40; ++message) {
    user& by = users[below(random, users.size())];
    const std::size_t from = below(random, by.buffers.size());
    const std::size_t to = below(random, by.buffers.size());
    if (from == to) {
      user& other = users[below(random, users.size())];
      if (&by == &other) continue;
      // the default stream and blocking streams of its GPU wait for each other by themselves
      const bool ordered = by.gpu == 0 && other.gpu == 0 && by.blocking && other.blocking &&
                           (by.stream == nullptr || other.stream == nullptr);
      if (!ordered || below(random, 4) == 0) {
        wait_for(in, other.stream, by.stream);
        wait_for(in, by.stream, other.stream);
      }
      std::swap(by.buffers, other.buffers);
      continue;
    }
    if (below(random, 12) == 0) {  // other memory at the same address
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
  // all of it was reached
  EXPECT_GT(total.direct, 300U);
  EXPECT_GT(total.streams, 300U);
  EXPECT_GT(total.graphs, 100U);
  EXPECT_GT(total.hits, 20U);
  EXPECT_GT(total.updates, 50U);
  EXPECT_GT(total.evictions, 10U);
}

TEST(copy_engine, messages_of_one_shape_on_many_streams_have_an_executable_each) {
  constexpr std::size_t window = 16;
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
    EXPECT_GE(counted.hits, 2 * window);  // at least those of the same stream
    EXPECT_EQ(counted.launches, 3 * window);
    in.expect_no_errors();
  }
}

TEST(copy_engine, other_addresses_of_one_shape_only_change_nodes) {
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
  EXPECT_LT(last.updates, first.nodes);  // only those that write the destination
  EXPECT_EQ(last.nodes, first.nodes);
  EXPECT_EQ(last.hits, 2U);
  // memory of another GPU is another shape
  in.move(in.gpu[2], in.gpu[0], stream);
  EXPECT_EQ(in.engine->statistics().misses, 2U);
  in.expect_right(other);
  in.expect_right(in.gpu[2]);
  in.expect_no_errors();
}

TEST(copy_engine, other_memory_at_the_same_address_changes_nodes) {
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
    EXPECT_EQ(in.driver.calls("graph_launch"), counted.launches);  // none was refused
    in.expect_no_errors();
  }
}

TEST(copy_engine, an_executable_that_the_driver_holds_to_be_stale_is_set_again) {
  four_gpus in(options_of(copy_executor::graphs));
  CUstream_st* const stream = in.driver.stream(0, false);
  in.move(in.gpu[1], in.gpu[0], stream);
  in.driver.synchronize();
  in.driver.make_stale();  // by what no address and no number of an allocation shows
  in.move(in.gpu[1], in.gpu[0], stream);
  in.expect_right(in.gpu[1]);
  EXPECT_EQ(in.driver.calls("graph_launch"), 3U);
  EXPECT_EQ(in.engine->statistics().misses, 1U);
  in.expect_no_errors();
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

// The driver gives the default streams of all GPUs one number.
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

TEST(copy_engine, what_is_known_to_be_direct_asks_the_driver_little) {
  machine::machine on = mesh(2);
  on.links.erase(std::remove_if(on.links.begin(), on.links.end(),
                                [](const machine::link& edge) {
                                  return edge.b == machine::host_end() ||
                                         edge.a == machine::host_end();
                                }),
                 on.links.end());
  on.gpu.copy_bytes_per_s = on.gpu.dram.bytes_per_s = on.host.memory_bytes_per_s = 1e12;
  for (machine::link& edge : on.links) edge.bytes_per_s = edge.copy_bytes_per_s = 50e9;
  on.links.push_back(machine::pcie_link(machine::gpu_end(0), machine::host_end(), 1e9));
  on.links.push_back(machine::pcie_link(machine::gpu_end(1), machine::host_end(), 1e9));
  world in(on, options_of(copy_executor::automatic), 1);
  std::mt19937_64 random(2);
  buffer from = make_buffer(in, kind::gpu, 0, 60'000, random);
  buffer to = make_buffer(in, kind::gpu, 1, 60'000, random);
  CUstream_st* const stream = in.driver.stream(0, false);
  in.copy(to.memory, from.memory, 60'000, stream);
  const std::uint64_t before = in.driver.all_calls();
  in.copy(to.memory, from.memory, 60'000, stream);
  in.copy(to.memory, from.memory, 60'001 - 8, stream);  // of the same class
  EXPECT_EQ(in.driver.all_calls(), before + 6);         // two ends, a copy
  EXPECT_EQ(in.engine->statistics().direct, 3U);
  in.expect_no_errors();
}

// What a copy over several paths enqueues, or a plain one.
struct enqueued {
  std::uint64_t copies = 0;
  std::uint64_t others = 0;

  explicit enqueued(fake::driver& by) : copies(by.calls("copy")) {
    for (const char* one : {"event_record", "stream_wait", "set_bytes", "graph_launch"})
      others += by.calls(one);
  }
};

// Messages that are made together every 10 ms, each with memory and a stream of its own.
class burst {
 public:
  static constexpr int host = copy_through_host;

  burst(four_gpus& in, const std::vector<std::pair<int, int>>& pairs) : in_(in) {
    in_.step_ns = 1'000;
    const auto memory = [&](int place) {
      return place == host ? make_buffer(in_, kind::pinned, 0, four_gpus::bytes, in_.random)
                           : make_buffer(in_, kind::gpu, place, four_gpus::bytes, in_.random);
    };
    for (const auto& [from, to] : pairs)
      messages_.push_back(
          {memory(from), memory(to), in_.driver.stream(from == host ? to : from, false)});
  }
  // How many of them were one plain copy, with nothing beside it.
  std::uint64_t plain() {
    std::uint64_t found = 0;
    for (message& one : messages_) {
      fill(one.from, in_.random);
      const enqueued before(in_.driver);
      in_.move(one.to, one.from, one.stream);
      const enqueued after(in_.driver);
      found += after.copies == before.copies + 1 && after.others == before.others ? 1 : 0;
    }
    for (const message& one : messages_) in_.expect_right(one.to);
    in_.time_ns += 10'000'000;
    return found;
  }

 private:
  struct message {
    buffer from;
    buffer to;
    CUstream_st* stream = nullptr;
  };
  four_gpus& in_;
  std::vector<message> messages_;
};

constexpr std::uint64_t second_ns = 1'000'000'000;

TEST(copy_engine, messages_that_come_together_again_keep_off_each_others_links) {
  constexpr int host = copy_through_host;
  const std::vector<std::vector<std::pair<int, int>>> patterns{
      {{host, 0}, {host, 1}, {host, 2}, {host, 3}},
      {{0, host}, {1, host}, {2, host}, {3, host}},
      {{host, 0}, {0, host}},
      {{0, 1}, {1, 0}},
      {{0, 1}, {1, 2}, {2, 3}, {3, 0}}};
  for (const copy_executor executor : {copy_executor::streams, copy_executor::graphs})
    for (const auto& pattern : patterns) {
      four_gpus in(options_of(executor));
      burst all(in, pattern);
      EXPECT_LT(all.plain(), pattern.size());  // the first one has all paths
      for (int round = 0; round < 3; ++round) EXPECT_EQ(all.plain(), pattern.size());
      // A second later one of them is alone.
      in.time_ns += second_ns;
      burst alone(in, {pattern[0]});
      for (int round = 0; round < 3; ++round) EXPECT_EQ(alone.plain(), 0U);
      in.expect_no_errors();
    }
}

TEST(copy_engine, messages_that_do_not_overlap_have_all_paths) {
  four_gpus in(options_of(copy_executor::streams));
  // one after another, on streams of their own
  burst to(in, {{copy_through_host, 0}});
  burst back(in, {{0, copy_through_host}});
  for (int round = 0; round < 4; ++round) {
    EXPECT_EQ(to.plain(), 0U);
    EXPECT_EQ(back.plain(), 0U);
  }
  // together, but on one stream
  CUstream_st* const stream = in.driver.stream(0, false);
  for (int round = 0; round < 4; ++round) {
    in.move(in.gpu[0], in.host, stream);
    in.move(in.gpu[1], in.gpu[0], stream);
    in.move(in.host, in.gpu[1], stream);
  }
  EXPECT_EQ(in.engine->statistics().streams, 20U);
  in.expect_right(in.host);
  // messages of one pair, together
  in.time_ns += second_ns;
  burst window(in, {{0, 1}, {0, 1}, {0, 1}, {0, 1}});
  for (int round = 0; round < 3; ++round) EXPECT_EQ(window.plain(), 0U);
  in.expect_no_errors();
}

// A file for messages that this test alone knows.
class traffic_path {
 public:
  traffic_path() {
    const int made = mkstemp(name_.data());
    EXPECT_GE(made, 0);
    close(made);
  }
  ~traffic_path() { unlink(name_.c_str()); }
  traffic_path(const traffic_path&) = delete;
  traffic_path& operator=(const traffic_path&) = delete;

  const std::string& name() const { return name_; }

 private:
  std::string name_ = "/tmp/interlace-traffic-XXXXXX";
};

constexpr std::uint64_t second_process = 77;  // its stream
constexpr machine::endpoint host_memory{machine::endpoint_kind::host, 0};
machine::endpoint memory_of(std::uint32_t gpu) { return {machine::endpoint_kind::gpu, gpu}; }

TEST(copy_engine, messages_keep_off_links_that_other_processes_use) {
  const traffic_path file;
  copy_options options = options_of(copy_executor::streams);
  options.traffic_file = file.name();
  four_gpus in(options);
  burst alone(in, {{copy_through_host, 0}});
  EXPECT_EQ(alone.plain(), 0U);
  cuda::traffic_table second({"gpu0"}, file.name());
  ASSERT_TRUE(second.shared());
  const cuda::traffic_table::pair back{memory_of(0), host_memory};
  second.use(back, second_process, in.time_ns, 100'000'000);
  for (int round = 0; round < 3; ++round) EXPECT_EQ(alone.plain(), 1U);
  in.time_ns += second_ns;
  EXPECT_EQ(alone.plain(), 0U);
  EXPECT_TRUE(in.reports.empty());
  in.expect_no_errors();
}

// It has one path itself, which others would take as a relay's.
TEST(copy_engine, a_process_with_one_of_several_gpus_is_seen_by_others) {
  for (const bool shares : {true, false}) {
    const traffic_path file;
    copy_options options = options_of(copy_executor::automatic);
    if (shares) options.traffic_file = file.name();
    four_gpus in(options);
    copy_engine one(
        in.driver.table(), options,
        [] {
          return cuda::copy_machine{mesh(1), {0}, {"gpu0"}, true};
        },
        [&](const std::string& sentence) { ADD_FAILURE() << sentence; },
        [&] { return in.time_ns += 1'000; });
    EXPECT_EQ(one.useful(), shares);
    cuda::traffic_table second({"gpu1", "gpu0"}, file.name());
    const cuda::traffic_table::pair other{host_memory, memory_of(0)};
    second.use(other, second_process, in.time_ns, 1'000'000);
    EXPECT_EQ(second.idle(other, {memory_of(1)}, in.time_ns).size(), 1U);
    const enqueued before(in.driver);
    one.copy(address(in.gpu[0].memory), address(in.host.memory), four_gpus::bytes,
             in.driver.stream(0, false));
    const enqueued after(in.driver);
    EXPECT_EQ(after.copies, before.copies + 1);
    EXPECT_EQ(after.others, before.others);
    second.use(other, second_process, in.time_ns, 1'000'000);
    EXPECT_EQ(second.idle(other, {memory_of(1)}, in.time_ns).size(), shares ? 0U : 1U);
    in.expect_no_errors();
  }
}

TEST(copy_engine, a_file_for_messages_that_cannot_be_used_is_named_once) {
  copy_options options = options_of(copy_executor::streams);
  options.traffic_file = "/nowhere/messages";
  four_gpus in(options);
  burst both(in, {{0, 1}, {1, 0}});
  EXPECT_LT(both.plain(), 2U);
  EXPECT_EQ(both.plain(), 2U);
  ASSERT_EQ(in.reports.size(), 1U);
  EXPECT_NE(in.reports[0].find("/nowhere/messages: "), std::string::npos) << in.reports[0];
  in.expect_no_errors();
}

// A graph that is captured after messages met has what they would have.
TEST(copy_engine, captured_messages_keep_off_links_of_messages_that_met_theirs) {
  four_gpus in(options_of(copy_executor::automatic));
  burst both(in, {{0, 1}, {1, 0}});
  CUstream_st* const stream = in.driver.stream(0, false);
  for (const std::uint64_t captured : {0U, 1U}) {
    (void)both.plain();
    in.time_ns += captured * second_ns;
    in.driver.begin_capture(stream);
    in.copy(in.gpu[1].memory, in.gpu[0].memory, four_gpus::bytes, stream);
    CUgraph_st* const graph = in.driver.end_capture(stream);
    EXPECT_EQ(in.engine->statistics().captured, captured);
    in.driver.table().graph_destroy(graph);
  }
  in.expect_no_errors();
}

TEST(copy_engine, no_more_executables_are_kept_than_are_allowed) {
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

// Launches a captured graph while other messages run, and ends it.
TEST(copy_engine, captured_messages_own_their_staging_memory_until_their_graph_ends) {
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    SCOPED_TRACE(seed);
    four_gpus in(options_of(copy_executor::automatic), seed);
    const auto& table = in.driver.table();
    CUstream_st* const stream = in.driver.stream(0, false);
    CUstream_st* const beside = in.driver.stream(2, false);
    in.engine->prepare();
    in.driver.begin_capture(stream);
    // in a graph a message reads what the one before it wrote
    in.copy(in.gpu[1].memory, in.gpu[0].memory, four_gpus::bytes, stream);
    in.copy(in.host.memory, in.gpu[1].memory, four_gpus::bytes, stream);
    in.move(in.gpu[3], in.gpu[2], beside);  // not captured; may ask the driver what would end it
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
    in.move(in.gpu[1], in.gpu[0], stream);  // takes what the graph had
    in.expect_right(in.gpu[1]);
    EXPECT_EQ(in.engine->statistics().staging_bytes, reserved);
    in.engine.reset();
    in.expect_no_errors();
  }
}

TEST(copy_engine, staging_memory_of_a_graph_that_outlives_the_engine_stays) {
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
  // and is freed when the next engine ends
  const std::uint64_t freed = in.driver.calls("free");
  (void)copy_engine(in.driver.table(), in.options);
  EXPECT_GT(in.driver.calls("free"), freed);
  in.expect_no_errors();
}

TEST(copy_engine, exhausted_staging_memory_makes_copies_direct_and_says_so_once) {
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

TEST(copy_engine, without_memory_for_staging_copies_are_direct) {
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

TEST(copy_engine, what_is_not_known_to_be_the_same_over_several_paths_is_one_plain_copy) {
  four_gpus in(options_of(copy_executor::graphs));
  CUstream_st* const stream = in.driver.stream(0, false);
  buffer pageable = make_buffer(in, kind::pageable, 0, four_gpus::bytes, in.random);
  buffer managed = make_buffer(in, kind::managed, 0, four_gpus::bytes, in.random);
  buffer same = make_buffer(in, kind::gpu, 0, four_gpus::bytes, in.random);
  buffer secluded = make_buffer(in, kind::virtual_gpu, 1, four_gpus::bytes, in.random);
  buffer pooled = make_buffer(in, kind::pool_gpu, 2, four_gpus::bytes, in.random);
  buffer pinned = make_buffer(in, kind::pinned, 0, four_gpus::bytes, in.random);
  in.move(in.gpu[0], pageable, stream);
  in.move(managed, in.gpu[0], stream);
  in.move(same, managed, stream);
  in.move(in.gpu[0], same, stream);
  in.move(secluded, in.gpu[0], stream);
  in.move(in.host, secluded, stream);
  in.move(pinned, in.host, stream);
  in.expect_right(pinned);
  EXPECT_EQ(in.engine->statistics().direct, 6U);
  EXPECT_EQ(in.driver.calls("copy"), 6U);
  EXPECT_EQ(in.engine->statistics().graphs, 1U);  // from there its own GPU sends all parts
  ASSERT_EQ(in.reports.size(), 1U);
  EXPECT_NE(in.reports[0].find("no access"), std::string::npos) << in.reports[0];
  for (int gpu = 0; gpu < 4; ++gpu) in.driver.give_access(secluded.memory, gpu);
  in.move(secluded, in.gpu[0], stream);
  in.expect_right(secluded);
  EXPECT_EQ(in.engine->statistics().graphs, 2U);
  in.move(pooled, in.gpu[0], stream);
  in.expect_right(pooled);
  EXPECT_EQ(in.engine->statistics().direct, 7U);
  for (int gpu = 0; gpu < 4; ++gpu) in.driver.give_access(pooled.memory, gpu);
  in.move(pooled, in.gpu[1], stream);
  in.expect_right(pooled);
  EXPECT_EQ(in.engine->statistics().graphs, 3U);
  in.expect_no_errors();
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

TEST(copy_engine, below_the_threshold_a_message_is_one_call_of_the_driver) {
  copy_options options = options_of(copy_executor::automatic);
  options.threshold_bytes = 1000;
  four_gpus in(options);
  CUstream_st* const stream = in.driver.stream(0, false);
  const std::uint64_t before = in.driver.all_calls();
  in.move(in.gpu[1], in.gpu[0], stream, 999);
  EXPECT_EQ(in.driver.calls("copy"), 1U);
  EXPECT_EQ(in.driver.all_calls(), before + 1);
  in.move(in.gpu[1], in.gpu[0], stream, 50'000);
  EXPECT_EQ(in.engine->statistics().streams, 1U);
  in.expect_right(in.gpu[1]);
}

TEST(copy_engine, a_driver_that_fails_anywhere_is_an_error_and_the_next_message_arrives) {
  const std::vector<std::string> functions{
      "pointer_attributes",  "allocate",       "stream_create", "stream_wait",
      "event_create",        "event_record",   "copy",          "set_bytes",
      "graph_create",        "graph_add_copy", "graph_launch",  "graph_instantiate",
      "graph_exec_set_copy", "event_query",    "push",          "graph_exec_destroy"};
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
            in.copy(in.gpu[1].memory, in.gpu[0].memory, four_gpus::bytes, stream);
            in.copy(in.gpu[3].memory, in.gpu[2].memory, four_gpus::bytes - 1, second);
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

TEST(copy_engine, only_allowed_places_relay) {
  for (const bool all : {true, false}) {
    copy_options options = options_of(copy_executor::streams);
    if (!all) options.relays = std::vector<int>{2, copy_through_host, 9};
    four_gpus in(options);
    in.move(in.gpu[1], in.gpu[0], in.driver.stream(0, false));
    in.expect_right(in.gpu[1]);
    // direct, two relays or one, each with staging memory; the host
    EXPECT_EQ(in.driver.calls("allocate"), all ? 2U : 1U);
    EXPECT_EQ(in.driver.calls("allocate_host"), 1U);
    EXPECT_EQ(in.reports.size(), all ? 0U : 1U);  // there is no gpu9
  }
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

// A profile for machines of four of the fake GPUs, in a file of its own.
class profile_file {
 public:
  explicit profile_file(const std::string& directions, const std::string& driver = "1.0") {
    close(mkstemp(name_.data()));
    std::ofstream(name_)
        << R"({"kind": "interlace copy profile", "format": 1, "machine": {"gpus": 4,)"
        << R"("model": "Fake GPU", "driver": ")" << driver << R"("}, "directions": {)" << directions
        << "}}";
  }
  ~profile_file() { unlink(name_.c_str()); }
  profile_file(const profile_file&) = delete;
  profile_file& operator=(const profile_file&) = delete;
  const std::string& name() const { return name_; }

 private:
  std::string name_ = "/tmp/interlace-profile-XXXXXX";
};

std::string classes(const std::string& direction, const std::string& all) {
  return "\"" + direction + R"(": {"classes": [)" + all + "]}";
}

TEST(copy_engine, a_profile_says_how_messages_of_a_size_are_copied) {
  const profile_file profile(
      classes("host-to-gpu", "") + "," + classes("gpu-to-host", "") + "," +
      classes("gpu-to-gpu", R"({"bytes": 1000, "paths": "gpus", "chunks": 2, "executor": "streams"},
                               {"bytes": 30000, "paths": "gpus", "chunks": 4,
                                "executor": "graphs"})"));
  copy_options options = options_of(copy_executor::automatic);
  options.profile = profile.name();
  options.threshold_bytes.reset();
  four_gpus in(options);
  CUstream_st* const stream = in.driver.stream(0, false);
  in.engine->prepare();
  in.move(in.gpu[0], in.host, stream);  // a direction that is always plain
  EXPECT_EQ(in.engine->statistics().direct, 1U);
  in.move(in.gpu[1], in.gpu[0], stream, 999);
  EXPECT_EQ(in.engine->statistics().direct, 2U);
  in.move(in.gpu[1], in.gpu[0], stream, 29'999);
  EXPECT_EQ(in.engine->statistics().streams, 1U);
  in.move(in.gpu[2], in.gpu[0], stream, 30'000);  // the first time as well
  const copy_statistics counted = in.engine->statistics();
  EXPECT_EQ(counted.graphs, 1U);
  EXPECT_GT(counted.nodes, 4U);
  for (const buffer* one : {&in.gpu[0], &in.gpu[1], &in.gpu[2]}) in.expect_right(*one);
  EXPECT_TRUE(in.reports.empty());
  in.expect_no_errors();
}

TEST(copy_engine, messages_that_meet_give_up_the_paths_of_a_profile_too) {
  const std::string always =
      R"({"bytes": 1000, "paths": "gpus", "chunks": 2, "executor": "streams"})";
  const profile_file profile(classes("host-to-gpu", always) + "," + classes("gpu-to-host", always) +
                             "," + classes("gpu-to-gpu", always));
  constexpr int host = copy_through_host;
  copy_options options = options_of(copy_executor::automatic);
  options.profile = profile.name();
  four_gpus in(options);
  burst all(in, {{host, 0}, {host, 1}, {host, 2}, {host, 3}});
  EXPECT_LT(all.plain(), 4U);
  for (int round = 0; round < 3; ++round) EXPECT_EQ(all.plain(), 4U);
  in.time_ns += second_ns;
  burst alone(in, {{host, 0}});
  for (int round = 0; round < 3; ++round) EXPECT_EQ(alone.plain(), 0U);
  in.expect_no_errors();
}

TEST(copy_engine, what_is_remarked_of_the_machine_is_said_once) {
  for (const std::uint32_t gpus : {1U, 4U}) {  // also where nothing can be relayed
    world in(mesh(gpus), options_of(copy_executor::automatic), 1);
    in.remarks = {"a GPU is hidden"};
    for (int turn = 0; turn < 3; ++turn) in.engine->prepare();
    EXPECT_EQ(in.reports, in.remarks);
  }
}

TEST(copy_engine, what_the_options_say_stands_before_a_profile) {
  const std::string always = R"({"bytes": 1, "paths": "gpus", "chunks": 2, "executor": "graphs"})";
  const profile_file profile(classes("host-to-gpu", always) + "," + classes("gpu-to-host", always) +
                             "," + classes("gpu-to-gpu", always));
  copy_options options = options_of(copy_executor::streams);
  options.profile = profile.name();
  options.threshold_bytes = 50'000;
  four_gpus in(options);
  CUstream_st* const stream = in.driver.stream(0, false);
  in.move(in.gpu[1], in.gpu[0], stream, 49'999);
  EXPECT_EQ(in.engine->statistics().direct, 1U);
  in.move(in.gpu[1], in.gpu[0], stream);
  EXPECT_EQ(in.engine->statistics().streams, 1U);
  EXPECT_EQ(in.engine->statistics().graphs, 0U);
  in.expect_right(in.gpu[1]);
}

TEST(copy_engine, a_profile_of_another_machine_is_used_after_a_warning) {
  const std::string always = R"({"bytes": 1, "paths": "gpus", "chunks": 2, "executor": "graphs"})";
  const std::string all = classes("host-to-gpu", always) + "," + classes("gpu-to-host", always) +
                          "," + classes("gpu-to-gpu", always);
  const profile_file profile(all, "0.9");
  copy_options options = options_of(copy_executor::automatic);
  options.profile = profile.name();
  four_gpus in(options);
  for (int turn = 0; turn < 2; ++turn) in.move(in.gpu[1], in.gpu[0], in.driver.stream(0, false));
  EXPECT_EQ(in.engine->statistics().graphs, 2U);
  ASSERT_EQ(in.reports.size(), 1U);
  EXPECT_NE(in.reports[0].find("was made on another machine: its driver is 0.9, here 1.0. It is "
                               "used nevertheless"),
            std::string::npos)
      << in.reports[0];
}

TEST(copy_engine, a_profile_that_cannot_be_read_changes_nothing) {
  const profile_file damaged("");
  for (const std::string& name :
       {damaged.name(), std::string("/nowhere/profile.json"), std::string("/tmp/")}) {
    copy_options options = options_of(copy_executor::automatic);
    options.profile = name;
    four_gpus in(options);
    in.move(in.gpu[1], in.gpu[0], in.driver.stream(0, false));
    EXPECT_EQ(in.engine->statistics().streams, 1U);
    ASSERT_EQ(in.reports.size(), 1U);
    EXPECT_NE(in.reports[0].find("copy profile " + name), std::string::npos) << in.reports[0];
  }
}

}  // namespace
}  // namespace interlace::copy_engine_tests
