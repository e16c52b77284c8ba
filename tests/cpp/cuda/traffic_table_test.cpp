// Pairs of places whose messages overlap in time ("meet"), and the relays that each pair may still
// use. Each test has its own clock. The pairs are in one process, or in several processes that
// share a file.
#include "cuda/transfer/traffic_table.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace interlace::traffic_table_tests {
namespace {

using cuda::traffic_table;
using machine::endpoint;
using machine::endpoint_kind;

constexpr endpoint host{endpoint_kind::host, 0};
constexpr std::uint64_t ms = 1'000'000;
constexpr std::uint64_t window = traffic_table::window_ns;

endpoint gpu(std::uint32_t index) { return {endpoint_kind::gpu, index}; }

std::vector<std::string> names(std::uint32_t gpus) {
  std::vector<std::string> made;
  for (std::uint32_t index = 0; index < gpus; ++index) made.push_back(std::to_string(index));
  return made;
}

// Returns all places except the two ends of the pair. The host is the last place.
std::vector<endpoint> others(const traffic_table::pair& asked, std::uint32_t gpus) {
  std::vector<endpoint> places;
  for (std::uint32_t index = 0; index < gpus; ++index)
    if (gpu(index) != asked.from && gpu(index) != asked.to) places.push_back(gpu(index));
  if (asked.from != host && asked.to != host) places.push_back(host);
  return places;
}

std::vector<endpoint> idle(const traffic_table& in, const traffic_table::pair& asked,
                           std::uint64_t now_ns, std::uint32_t gpus = 4) {
  return in.idle_relays(asked, others(asked, gpus), now_ns);
}

using places = std::vector<endpoint>;

TEST(traffic_table, a_pair_alone_has_all_relays) {
  traffic_table in(names(4));
  for (int message = 0; message < 5; ++message) {
    in.add_use({host, gpu(0)}, 1, 10 * ms, 4 * ms);
    in.add_use({host, gpu(0)}, 2, 10 * ms, 4 * ms);  // this message is on another stream
  }
  EXPECT_EQ(idle(in, {host, gpu(0)}, 11 * ms), (places{gpu(1), gpu(2), gpu(3)}));
  EXPECT_EQ(idle(in, {gpu(0), gpu(1)}, 11 * ms), (places{gpu(2), gpu(3), host}));
}

TEST(traffic_table, pairs_meet_when_both_are_in_use_and_for_a_window) {
  traffic_table in(names(4));
  in.add_use({host, gpu(0)}, 1, 10 * ms, 4 * ms);
  in.add_use({host, gpu(1)}, 2, 11 * ms, 4 * ms);
  for (const std::uint64_t now_ns : {11 * ms, 100 * ms, 10 * ms + window}) {
    // Each pair gets one relay: gpu2 or gpu3.
    EXPECT_EQ(idle(in, {host, gpu(0)}, now_ns), places{gpu(2)});
    EXPECT_EQ(idle(in, {host, gpu(1)}, now_ns), places{gpu(3)});
  }
  EXPECT_EQ(idle(in, {host, gpu(2)}, 12 * ms).size(), 3U);  // this pair has sent no message yet
  EXPECT_EQ(idle(in, {host, gpu(0)}, 12 * ms + window).size(), 3U);
}

TEST(traffic_table, a_message_after_the_end_of_another_does_not_meet_it) {
  traffic_table in(names(4));
  in.add_use({host, gpu(0)}, 1, 10 * ms, 4 * ms);
  // This message starts slightly before the predicted end of the first message.
  in.add_use({gpu(0), host}, 2, 14 * ms - ms / 2, 4 * ms);
  EXPECT_EQ(idle(in, {host, gpu(0)}, 14 * ms).size(), 3U);
  // The table expects that the messages of one pair run one after another.
  for (int message = 0; message < 4; ++message) in.add_use({gpu(1), host}, 1, 20 * ms, 4 * ms);
  in.add_use({gpu(2), host}, 2, 30 * ms, 1 * ms);
  EXPECT_LT(idle(in, {gpu(1), host}, 30 * ms).size(), 3U);
  // A message that takes less time than predicted also ends earlier in the table.
  in.add_use({gpu(0), gpu(1)}, 1, 50 * ms, 8 * ms);
  in.reduce_use({gpu(0), gpu(1)}, 6 * ms);
  in.add_use({gpu(1), gpu(0)}, 2, 52 * ms, 8 * ms);
  EXPECT_EQ(idle(in, {gpu(0), gpu(1)}, 53 * ms).size(), 3U);
}

TEST(traffic_table, messages_of_one_stream_do_not_meet) {
  traffic_table in(names(4));
  in.add_use({host, gpu(0)}, 7, 10 * ms, 4 * ms);
  in.add_use({gpu(0), gpu(1)}, 7, 10 * ms, 4 * ms);
  EXPECT_EQ(idle(in, {host, gpu(0)}, 10 * ms).size(), 3U);
  EXPECT_EQ(idle(in, {gpu(0), gpu(1)}, 10 * ms).size(), 3U);
}

TEST(traffic_table, whoever_shares_a_gpu_or_both_directions_of_the_host_is_direct) {
  const auto left = [](const traffic_table::pair& one, const traffic_table::pair& other) {
    traffic_table in(names(4));
    in.add_use(other, 1, 10 * ms, 4 * ms);
    in.add_use(one, 2, 11 * ms, 4 * ms);
    return idle(in, one, 12 * ms);
  };
  EXPECT_EQ(left({host, gpu(0)}, {gpu(0), host}), places{});
  EXPECT_EQ(left({host, gpu(0)}, {gpu(1), host}), places{});
  EXPECT_EQ(left({host, gpu(0)}, {gpu(1), gpu(0)}), places{});
  EXPECT_EQ(left({host, gpu(0)}, {gpu(1), gpu(2)}), places{gpu(3)});
  EXPECT_EQ(left({gpu(0), gpu(1)}, {gpu(1), gpu(0)}), places{});
  EXPECT_EQ(left({gpu(0), gpu(1)}, {gpu(1), gpu(2)}), places{});
  EXPECT_EQ(left({gpu(0), gpu(1)}, {gpu(3), gpu(1)}), places{});
  EXPECT_EQ(left({gpu(0), gpu(1)}, {gpu(0), host}), places{});
  // The host cannot relay, because it is an end of the second pair.
  EXPECT_EQ(left({gpu(0), gpu(1)}, {gpu(2), host}), places{gpu(3)});
  EXPECT_EQ(left({gpu(0), gpu(1)}, {gpu(2), gpu(3)}),
            places{});  // both pairs need the host as their relay
}

TEST(traffic_table, pairs_of_a_kind_have_as_many_relays_as_each_other) {
  for (const std::uint32_t count : {1U, 2U, 3U, 4U, 5U, 6U, 7U, 8U}) {
    traffic_table in(names(8));
    for (std::uint32_t index = 0; index < count; ++index)
      in.add_use({gpu(index), host}, index + 1, 10 * ms, 4 * ms);
    for (std::uint32_t index = 0; index < count; ++index)
      EXPECT_EQ(idle(in, {gpu(index), host}, 11 * ms, 8).size(),
                count == 1 ? 7 : (8 - count) / count)
          << count;
  }
}

// Whichever pairs meet, no pair relays through an end of another pair. Two pairs of the same kind
// do not relay through the same place.
TEST(traffic_table, random_pairs_never_take_each_others_places) {
  std::mt19937_64 random(3);
  for (int turn = 0; turn < 200; ++turn) {
    const auto gpus = static_cast<std::uint32_t>(2 + random() % (traffic_table::most_gpus - 1));
    traffic_table in(names(gpus));
    std::vector<traffic_table::pair> sent;
    const auto any = [&] {
      const auto index = static_cast<std::uint32_t>(random() % (gpus + 1));
      return index == gpus ? host : gpu(index);
    };
    const auto same = [](const traffic_table::pair& one, const traffic_table::pair& other) {
      return one.from == other.from && one.to == other.to;
    };
    for (std::size_t count = 1 + random() % 6; sent.size() < count;) {
      const traffic_table::pair made{any(), any()};
      if (made.from != made.to &&
          std::none_of(sent.begin(), sent.end(), [&](const auto& one) { return same(one, made); }))
        sent.push_back(made);
    }
    for (int round = 0; round < 2; ++round)
      for (std::size_t at = 0; at < sent.size(); ++at)
        in.add_use(sent[at], at + 1, 10 * ms, 4 * ms);
    for (const traffic_table::pair& one : sent)
      for (const endpoint place : idle(in, one, 11 * ms, gpus))
        for (const traffic_table::pair& other : sent) {
          if (same(one, other)) continue;
          EXPECT_TRUE(place != other.from && place != other.to);
          const bool one_kind =
              (one.from == host) == (other.from == host) && (one.to == host) == (other.to == host);
          const places theirs = idle(in, other, 11 * ms, gpus);
          const bool both = std::find(theirs.begin(), theirs.end(), place) != theirs.end();
          EXPECT_FALSE(one_kind && both);
        }
  }
}

TEST(traffic_table, clocks_that_differ_a_little_and_times_that_mean_nothing) {
  traffic_table in(names(2));
  // This thread read the clock before the other thread did, so the time of this thread is earlier.
  in.add_use({host, gpu(0)}, 1, 10 * ms, 4 * ms);
  in.add_use({host, gpu(1)}, 2, 10 * ms - 1'000, 4 * ms);
  EXPECT_EQ(idle(in, {host, gpu(0)}, 10 * ms - 2'000, 2), places{});
  // Here, the clock was reset between the two calls.
  EXPECT_EQ(idle(in, {host, gpu(0)}, 1, 2).size(), 0U);
  traffic_table late(names(2));
  late.add_use({host, gpu(0)}, 1, ~std::uint64_t{0} - ms, 4 * ms);
  late.add_use({host, gpu(1)}, 2, 5 * ms, ms);
  EXPECT_EQ(idle(late, {host, gpu(1)}, 5 * ms, 2).size(), 1U);
}

TEST(traffic_table, gpus_beyond_its_size_do_not_meet) {
  constexpr std::uint32_t gpus = traffic_table::most_gpus + 2;
  traffic_table in(names(gpus));
  in.add_use({host, gpu(gpus - 1)}, 1, 10 * ms, 4 * ms);
  in.add_use({host, gpu(gpus - 2)}, 2, 10 * ms, 4 * ms);
  in.add_use({host, gpu(0)}, 3, 10 * ms, 4 * ms);
  EXPECT_EQ(idle(in, {host, gpu(gpus - 1)}, 10 * ms, gpus).size(), gpus - 1);
  EXPECT_EQ(idle(in, {host, gpu(0)}, 10 * ms, gpus).size(), gpus - 1);
}

TEST(traffic_table, threads_see_each_other) {
  traffic_table in(names(4));
  std::vector<std::thread> running;
  for (std::uint32_t index = 0; index < 4; ++index)
    running.emplace_back([&, index] {
      for (std::uint64_t message = 0; message < 200; ++message)
        in.add_use({gpu(index), host}, index + 1, 10 * ms + message, 4 * ms);
    });
  for (std::thread& one : running) one.join();
  for (std::uint32_t index = 0; index < 4; ++index)
    EXPECT_EQ(idle(in, {gpu(index), host}, 11 * ms), places{}) << index;
}

// A path at which no file exists at first.
class new_path {
 public:
  new_path() {
    const int made = mkstemp(name_.data());
    EXPECT_GE(made, 0);
    close(made);
    unlink(name_.c_str());
  }
  ~new_path() { unlink(name_.c_str()); }
  new_path(const new_path&) = delete;
  new_path& operator=(const new_path&) = delete;

  const std::string& name() const { return name_; }

 private:
  std::string name_ = "/tmp/interlace-traffic-XXXXXX";
};

TEST(traffic_table, processes_that_see_other_gpus_by_other_numbers_meet) {
  const new_path file;
  traffic_table all({"a", "b", "c", "d"}, file.name());
  traffic_table one({"b"}, file.name());
  EXPECT_TRUE(all.shared());
  EXPECT_TRUE(one.shared());
  EXPECT_EQ(all.remark(), "");
  struct stat facts {};
  ASSERT_EQ(stat(file.name().c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777U, 0600U);  // other users have no access
  one.add_use({host, gpu(0)}, 1, 10 * ms, 4 * ms);
  all.add_use({host, gpu(0)}, 2, 11 * ms, 4 * ms);
  EXPECT_EQ(idle(all, {host, gpu(0)}, 12 * ms), places{gpu(2)});
  EXPECT_EQ(idle(all, {host, gpu(1)}, 12 * ms), places{gpu(3)});
  EXPECT_EQ(idle(all, {host, gpu(2)}, 12 * ms), (places{gpu(0), gpu(1), gpu(3)}));
  // A process that starts later sees the earlier messages.
  traffic_table late({"c", "b"}, file.name());
  // A pair of another process relays through GPU "c", so this pair must not relay through "c".
  EXPECT_EQ(idle(late, {host, gpu(1)}, 12 * ms, 2), places{});
  EXPECT_EQ(idle(late, {host, gpu(1)}, 12 * ms + window, 2), places{gpu(0)});
}

// Asks for relays in a child process. The child exits with 0 if the message may use relays, and
// with 1 if the message may use none.
int ask_in_child(const std::string& file, std::uint64_t now_ns, bool killed) {
  const pid_t child = fork();
  if (child == 0) {
    traffic_table own({"b", "a"}, file);
    own.add_use({host, gpu(0)}, 2, now_ns, 4 * ms);
    if (killed) (void)raise(SIGKILL);
    _exit(idle(own, {host, gpu(0)}, now_ns, 2).empty() ? 1 : 0);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(traffic_table, processes_meet_and_the_entries_of_a_killed_one_age) {
  const new_path file;
  // The child makes the file. No other process uses the file at that time.
  EXPECT_EQ(ask_in_child(file.name(), 10 * ms, false), 0);
  traffic_table own({"a", "b"}, file.name());
  own.add_use({host, gpu(0)}, 1, 30 * ms, 4 * ms);
  EXPECT_EQ(idle(own, {host, gpu(0)}, 30 * ms, 2), places{gpu(1)});
  EXPECT_EQ(ask_in_child(file.name(), 31 * ms, false), 1);
  EXPECT_EQ(idle(own, {host, gpu(0)}, 31 * ms, 2), places{});  // the table has the child's message
  const std::uint64_t later = 31 * ms + 2 * window;
  EXPECT_EQ(idle(own, {host, gpu(0)}, later, 2), places{gpu(1)});
  EXPECT_EQ(ask_in_child(file.name(), later, true), -1);
  own.add_use({host, gpu(0)}, 1, later + ms, 4 * ms);
  EXPECT_EQ(idle(own, {host, gpu(0)}, later + ms, 2), places{});
  EXPECT_EQ(idle(own, {host, gpu(0)}, later + 2 * window, 2), places{gpu(1)});
}

TEST(traffic_table, a_file_that_cannot_be_shared_is_named_and_the_process_has_its_own_table) {
  const auto expect_own = [](const std::string& file, const std::string& why) {
    traffic_table in({"a", "b"}, file);
    EXPECT_FALSE(in.shared());
    EXPECT_NE(in.remark().find(file + ": "), std::string::npos) << in.remark();
    EXPECT_NE(in.remark().find(why), std::string::npos) << in.remark();
    in.add_use({host, gpu(0)}, 1, 10 * ms, 4 * ms);
    in.add_use({host, gpu(1)}, 2, 10 * ms, 4 * ms);
    EXPECT_EQ(idle(in, {host, gpu(0)}, 10 * ms, 2), places{});
  };
  expect_own("/tmp", "directory");
  expect_own("/nowhere/at/all", "No such file");
  expect_own("/dev/null", "it is not a file");
  const new_path text;
  std::ofstream(text.name()) << "a shopping list";
  expect_own(text.name(), "remove it");
  const new_path link;
  ASSERT_EQ(symlink(text.name().c_str(), link.name().c_str()), 0);
  expect_own(link.name(), "link");
  std::string left;
  std::getline(std::ifstream(text.name()), left);
  EXPECT_EQ(left, "a shopping list");
  const new_path full;
  const traffic_table filled(names(traffic_table::most_gpus), full.name());
  EXPECT_TRUE(filled.shared());
  expect_own(full.name(), "16 GPUs");
}

// The file has the right size and format, but its times are arbitrary.
TEST(traffic_table, garbage_in_the_file_ages_or_means_nothing) {
  std::mt19937_64 random(4);
  for (int turn = 0; turn < 6; ++turn) {
    const new_path file;
    { const traffic_table made(names(2), file.name()); }
    struct stat facts {};
    ASSERT_EQ(stat(file.name().c_str(), &facts), 0);
    {
      std::fstream written(file.name(), std::ios::binary | std::ios::in | std::ios::out);
      written.seekp((1 + traffic_table::most_gpus) * sizeof(std::uint64_t));
      while (written.tellp() < facts.st_size) {
        // In every second file, the times are at most four windows after the start of the test.
        const std::uint64_t number = turn % 2 == 0 ? random() : 10 * ms + random() % (4 * window);
        written.write(reinterpret_cast<const char*>(&number), sizeof(number));
      }
    }
    traffic_table in(names(2), file.name());
    EXPECT_TRUE(in.shared());
    std::uint64_t now_ns = 10 * ms;
    for (int message = 0; message < 20; ++message, now_ns += window) {
      in.add_use({host, gpu(0)}, 1, now_ns, 4 * ms);
      EXPECT_LE(idle(in, {host, gpu(0)}, now_ns, 2).size(), 1U);
    }
    EXPECT_EQ(idle(in, {host, gpu(0)}, now_ns, 2), places{gpu(1)});
  }
}

}  // namespace
}  // namespace interlace::traffic_table_tests
