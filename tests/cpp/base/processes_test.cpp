#include "base/processes.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "interlace/base/errors.hpp"

namespace interlace::processes_tests {
namespace {

using namespace std::chrono_literals;

// Runs rank 1 in a separate process. That process exits with code 0 if `child` returns true.
class pair_of_processes {
 public:
  explicit pair_of_processes(const std::function<bool(peer_processes&)>& child) {
    points_.emplace();
    other_.emplace();
    const std::vector<std::string> paths{points_->path(), other_->path()};
    pid_ = fork();
    if (pid_ == 0) {
      bool right = false;
      try {
        peer_processes own(1, paths, *other_, 5s);
        right = child(own);
      } catch (const std::exception&) {
        right = false;
      }
      _exit(right ? 0 : 1);
    }
    own_.emplace(0, paths, *points_, 5s);
  }
  ~pair_of_processes() {
    if (pid_ > 0) waitpid(pid_, nullptr, 0);
  }
  pair_of_processes(const pair_of_processes&) = delete;
  pair_of_processes& operator=(const pair_of_processes&) = delete;

  peer_processes& own() { return *own_; }
  pid_t pid() const { return pid_; }
  int wait() {
    int status = -1;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return status;
  }

 private:
  std::optional<meeting_point> points_, other_;
  pid_t pid_ = -1;
  std::optional<peer_processes> own_;
};

TEST(meeting_point_test, only_its_user_may_enter_and_nothing_is_left) {
  std::filesystem::path folder;
  {
    const meeting_point p;
    folder = std::filesystem::path(p.path()).parent_path();
    struct stat s {};
    ASSERT_EQ(stat(folder.c_str(), &s), 0);
    EXPECT_EQ(s.st_mode & 0777U, 0700U);
  }
  EXPECT_FALSE(std::filesystem::exists(folder));
}

TEST(processes_test, descriptors_pass_between_two_processes) {
  pair_of_processes both([](peer_processes& own) {
    const auto got = own.receive(0, 7);
    if (got.bytes != "two files" || got.descriptors.size() != 2) return false;
    for (std::size_t k = 0; k < 2; ++k) {
      const char letter = static_cast<char>('a' + k);
      if (write(got.descriptors[k].get(), &letter, 1) != 1) return false;
    }
    own.send(0, 8, "written");
    return true;
  });
  std::vector<descriptor> reads;
  std::vector<descriptor> writes;
  for (int k = 0; k < 2; ++k) {
    std::array<int, 2> ends{};
    ASSERT_EQ(pipe(ends.data()), 0);
    reads.emplace_back(ends[0]);
    writes.emplace_back(ends[1]);
  }
  both.own().send(1, 7, "two files", {writes[0].get(), writes[1].get()});
  EXPECT_EQ(both.own().receive(1, 8).bytes, "written");
  for (std::size_t k = 0; k < 2; ++k) {
    char letter = 0;
    EXPECT_EQ(read(reads[k].get(), &letter, 1), 1);
    EXPECT_EQ(letter, static_cast<char>('a' + k));
  }
  EXPECT_EQ(both.wait(), 0);
}

TEST(processes_test, tags_distinguish_messages) {
  pair_of_processes both([](peer_processes& own) {
    own.send(0, 1, "first");
    own.send(0, 2, "second");
    own.send(0, 1, "third");
    return own.receive(0, 3).bytes.empty();
  });
  EXPECT_EQ(both.own().receive(1, 2).bytes, "second");
  EXPECT_EQ(both.own().receive(1, 1).bytes, "first");
  EXPECT_EQ(both.own().receive(1, 1).bytes, "third");
  both.own().send(1, 3, "");
  EXPECT_EQ(both.wait(), 0);
}

TEST(processes_test, a_process_that_is_killed_is_noticed_and_one_that_leaves_is_not) {
  for (const bool killed : {true, false}) {
    pair_of_processes both([](peer_processes& own) { return own.receive(0, 1).bytes == "go"; });
    std::atomic<std::uint32_t> ended{99};
    both.own().watch({.ended = [&](std::uint32_t rank) { ended = rank; }});
    if (killed) {
      kill(both.pid(), SIGKILL);
    } else {
      both.own().send(1, 1, "go");
    }
    both.wait();
    const auto end = std::chrono::steady_clock::now() + (killed ? 5000ms : 50ms);
    while (ended == 99 && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(1ms);
    EXPECT_EQ(ended, killed ? 1U : 99U);
  }
}

TEST(processes_test, a_text_sent_before_a_process_ended_arrives_before_its_end) {
  pair_of_processes both([](peer_processes& own) {
    own.tell("chunk 3");
    kill(getpid(), SIGKILL);
    return true;
  });
  std::mutex mutex;
  std::string heard;
  both.own().watch({.ended =
                        [&](std::uint32_t) {
                          const std::lock_guard lock(mutex);
                          heard += "; ended";
                        },
                    .told =
                        [&](std::uint32_t rank, const std::string& text) {
                          const std::lock_guard lock(mutex);
                          heard += std::to_string(rank) + ": " + text;
                        }});
  both.wait();
  const auto end = std::chrono::steady_clock::now() + 5s;
  for (;;) {
    const std::lock_guard lock(mutex);
    if (heard.ends_with("ended") || std::chrono::steady_clock::now() > end) break;
  }
  EXPECT_EQ(heard, "1: chunk 3; ended");
}

TEST(processes_test, waiting_for_a_process_that_ended_is_an_error) {
  pair_of_processes both([](peer_processes&) { return true; });
  both.wait();
  try {
    (void)both.own().receive(1, 1);
    FAIL();
  } catch (const device_error& e) {
    EXPECT_STREQ(e.what(), "rank 1 ended");
  }
}

TEST(processes_test, a_rank_that_stays_away_is_an_error) {
  const meeting_point own;
  EXPECT_THROW(peer_processes(0, {own.path(), "/nowhere"}, own, 20ms), device_error);
  EXPECT_THROW(peer_processes(1, {"/nowhere", own.path()}, own, 20ms), device_error);
}

}  // namespace
}  // namespace interlace::processes_tests
