// Messages that overlap in time avoid each other's links, in one engine and across processes.
#include "cuda/transfer/link_usage.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "cuda/copy_world.hpp"
#include "cuda/profile_file.hpp"

namespace interlace::copy_engine_tests {
namespace {

// The number of operations that the engine enqueues for a copy over several paths, and for a plain
// copy.
struct enqueued {
  std::uint64_t copies = 0;
  std::uint64_t others = 0;

  explicit enqueued(fake::driver& by) : copies(by.calls("copy")) {
    for (const char* one : {"event_record", "stream_wait", "set_bytes", "graph_launch"})
      others += by.calls(one);
  }
};

// Messages that start together every 10 ms. Each message has its own memory and stream.
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
  // Returns how many messages were one plain copy, without further operations.
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

TEST(link_usage, messages_that_come_together_again_keep_off_each_others_links) {
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
      EXPECT_LT(all.plain(), pattern.size());  // the first message may use all paths
      for (int round = 0; round < 3; ++round) EXPECT_EQ(all.plain(), pattern.size());
      // One second later, only the first of the messages is sent.
      in.time_ns += second_ns;
      burst alone(in, {pattern[0]});
      for (int round = 0; round < 3; ++round) EXPECT_EQ(alone.plain(), 0U);
      in.expect_no_errors();
    }
}

TEST(link_usage, messages_that_do_not_overlap_have_all_paths) {
  four_gpus in(options_of(copy_executor::streams));
  // These messages run one after another, each on its own stream.
  burst to(in, {{copy_through_host, 0}});
  burst back(in, {{0, copy_through_host}});
  for (int round = 0; round < 4; ++round) {
    EXPECT_EQ(to.plain(), 0U);
    EXPECT_EQ(back.plain(), 0U);
  }
  // These messages start together, but on one stream.
  CUstream_st* const stream = in.driver.stream(0, false);
  for (int round = 0; round < 4; ++round) {
    in.move(in.gpu[0], in.host, stream);
    in.move(in.gpu[1], in.gpu[0], stream);
    in.move(in.host, in.gpu[1], stream);
  }
  EXPECT_EQ(in.engine->statistics().streams, 20U);
  in.expect_right(in.host);
  // These messages start together, but all of them have the same source and destination.
  in.time_ns += second_ns;
  burst window(in, {{0, 1}, {0, 1}, {0, 1}, {0, 1}});
  for (int round = 0; round < 3; ++round) EXPECT_EQ(window.plain(), 0U);
  in.expect_no_errors();
}

// A traffic file that only this test uses.
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

constexpr std::uint64_t second_process = 77;  // a stream of the second process
constexpr machine::endpoint host_memory{machine::endpoint_kind::host, 0};
machine::endpoint memory_of(std::uint32_t gpu) { return {machine::endpoint_kind::gpu, gpu}; }

TEST(link_usage, messages_keep_off_links_that_other_processes_use) {
  const traffic_path file;
  copy_options options = options_of(copy_executor::streams);
  options.traffic_file = file.name();
  four_gpus in(options);
  burst alone(in, {{copy_through_host, 0}});
  EXPECT_EQ(alone.plain(), 0U);
  cuda::traffic_table second({"gpu0"}, file.name());
  ASSERT_TRUE(second.shared());
  const cuda::traffic_table::pair back{memory_of(0), host_memory};
  second.add_use(back, second_process, in.time_ns, 100'000'000);
  for (int round = 0; round < 3; ++round) EXPECT_EQ(alone.plain(), 1U);
  in.time_ns += second_ns;
  EXPECT_EQ(alone.plain(), 0U);
  EXPECT_TRUE(in.reports.empty());
  in.expect_no_errors();
}

// A process that sees only one GPU never has a choice of paths. But other processes must see its
// messages, because they could relay through this GPU.
TEST(link_usage, a_process_with_one_of_several_gpus_is_seen_by_others) {
  for (const bool shares : {true, false}) {
    const traffic_path file;
    copy_options options = options_of(copy_executor::automatic);
    if (shares) options.traffic_file = file.name();
    four_gpus in(options);
    copy_engine one(
        in.driver.table(), options,
        [] {
          return cuda::copy_machine{
              .described = mesh(1), .gpus = {0}, .names = {"gpu0"}, .hides_gpus = true};
        },
        [&](const std::string& sentence) { ADD_FAILURE() << sentence; },
        [&] { return in.time_ns += 1'000; });
    EXPECT_EQ(one.usable(), shares);
    cuda::traffic_table second({"gpu1", "gpu0"}, file.name());
    const cuda::traffic_table::pair other{host_memory, memory_of(0)};
    second.add_use(other, second_process, in.time_ns, 1'000'000);
    EXPECT_EQ(second.idle_relays(other, {memory_of(1)}, in.time_ns).size(), 1U);
    const enqueued before(in.driver);
    one.copy(address(in.gpu[0].memory), address(in.host.memory), four_gpus::bytes,
             in.driver.stream(0, false));
    const enqueued after(in.driver);
    EXPECT_EQ(after.copies, before.copies + 1);
    EXPECT_EQ(after.others, before.others);
    second.add_use(other, second_process, in.time_ns, 1'000'000);
    EXPECT_EQ(second.idle_relays(other, {memory_of(1)}, in.time_ns).size(), shares ? 0U : 1U);
    in.expect_no_errors();
  }
}

TEST(link_usage, a_file_for_messages_that_cannot_be_used_is_named_once) {
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

// If messages of two pairs have just overlapped, a captured message of one of these pairs becomes a
// plain copy. One second later, a captured message of this pair gets several paths.
TEST(link_usage, captured_messages_keep_off_links_of_messages_that_met_theirs) {
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

TEST(link_usage, messages_that_meet_give_up_the_paths_of_a_profile_too) {
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

}  // namespace
}  // namespace interlace::copy_engine_tests
