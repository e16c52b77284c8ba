#include "base/activities.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

#include "base/processes.hpp"

namespace interlace::activities_tests {
namespace {

// Tests that run with a socket folder that only this user may enter.
class activities : public testing::Test {
 public:
  activities() {
    std::string made = "/tmp/activities-XXXXXX";
    if (mkdtemp(made.data()) == nullptr) throw std::runtime_error("no folder");
    folder_ = made;
    setenv("XDG_RUNTIME_DIR", made.c_str(), 1);  // NOLINT: no other thread runs
    (void)std::signal(SIGQUIT, SIG_DFL);         // a background job of a shell ignores SIGQUIT
  }
  ~activities() override {
    unsetenv("XDG_RUNTIME_DIR");  // NOLINT: no other thread runs
    std::filesystem::remove_all(folder_);
  }
  activities(const activities&) = delete;
  activities& operator=(const activities&) = delete;
  activities(activities&&) = delete;
  activities& operator=(activities&&) = delete;

  const std::filesystem::path& folder() const { return folder_; }
  std::filesystem::path name() const {
    return folder_ / "interlace-ps" / (std::to_string(getpid()) + ".socket");
  }
  // The text that the process answers, or an empty text if no process listens.
  std::string answer() const {
    const descriptor asker(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = name();
    std::copy(path.begin(), path.end(), std::begin(address.sun_path));
    const auto* place =
        reinterpret_cast<const sockaddr*>(&address);  // NOLINT: the type that the call takes
    if (connect(asker.get(), place, sizeof(address)) != 0) return {};
    std::string text;
    std::array<char, 4096> some{};
    for (ssize_t n = 0; (n = read(asker.get(), some.data(), some.size())) > 0;) {
      text.append(some.data(), static_cast<std::size_t>(n));
    }
    return text;
  }

 private:
  std::filesystem::path folder_;
};

TEST_F(activities, are_told_while_they_last) {
  {
    const shown_activity first(
        [] { return activity{.what = "a \"group\"", .since = 5, .note = "one\n\x1b[2J\\two\n"}; });
    const shown_activity second([]() -> activity { throw std::runtime_error("no"); });
    struct stat found {};
    ASSERT_EQ(stat((folder() / "interlace-ps").c_str(), &found), 0);
    EXPECT_EQ(found.st_mode & 0777U, 0700U);
    const std::string told = answer();
    EXPECT_TRUE(
        told.starts_with("{\"process\": " + std::to_string(getpid()) + ", \"command\": [\""))
        << told;
    EXPECT_NE(told.find(R"({"what": "a \"group\"", "since": 5.000000, "done": 0, "steps": 0, )"
                        R"("unit": "", "last": null, "note": "one\n\\x1b[2J\\two"})"),
              std::string::npos)
        << told;
    EXPECT_NE(told.find(R"("what": "unknown")"), std::string::npos);
    EXPECT_NE(told.find(R"("note": "no")"), std::string::npos);
  }
  EXPECT_FALSE(std::filesystem::exists(name()));
  const shown_activity again([] { return activity{"x"}; });
  EXPECT_NE(answer().find(R"("what": "x")"), std::string::npos);
}

TEST_F(activities, take_the_name_of_a_killed_process_and_of_nobody_else) {
  std::filesystem::create_directory(folder() / "interlace-ps");
  std::filesystem::permissions(folder() / "interlace-ps", std::filesystem::perms::owner_all);
  {
    const descriptor other(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = name();
    std::copy(path.begin(), path.end(), std::begin(address.sun_path));
    const auto* place =
        reinterpret_cast<const sockaddr*>(&address);  // NOLINT: the type that the call takes
    ASSERT_EQ(bind(other.get(), place, sizeof(address)), 0);
    ASSERT_EQ(listen(other.get(), 4), 0);
    const shown_activity one([] { return activity{"x"}; });
    EXPECT_TRUE(std::filesystem::exists(name()));
  }
  EXPECT_EQ(answer(), "");  // the other socket is closed, but its name still exists
  const shown_activity one([] { return activity{"y"}; });
  EXPECT_NE(answer().find(R"("what": "y")"), std::string::npos);
}

TEST_F(activities, are_not_told_where_others_may_look) {
  std::filesystem::permissions(folder(), std::filesystem::perms::others_read,
                               std::filesystem::perm_options::add);
  const shown_activity one([] { return activity{"x"}; });
  EXPECT_EQ(answer(), "");
}

// Runs `act` in a separate process whose standard error is a pipe.
template <class F>
std::pair<int, std::string> in_a_process(F&& act) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) throw std::runtime_error("no pipe");
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    act();
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  std::array<char, 4096> some{};
  for (ssize_t n = 0; (n = read(ends[0], some.data(), some.size())) > 0;) {
    text.append(some.data(), static_cast<std::size_t>(n));
  }
  close(ends[0]);
  int status = -1;
  waitpid(child, &status, 0);
  return {status, text};
}

TEST_F(activities, are_printed_for_sigquit_and_the_program_goes_on) {
  const auto [status, text] = in_a_process([] {
    const shown_activity one([] { return activity{"x", seconds_now() - 65, "a\nb"}; });
    (void)raise(SIGQUIT);
    usleep(300'000);
  });
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(text.starts_with("process "));
  EXPECT_TRUE(text.ends_with("\n  x, for 1 min 5 s\n    a\n    b\n")) << text;
}

TEST_F(activities, leave_sigquit_to_a_program_that_uses_it) {
  static volatile std::sig_atomic_t taken = 0;
  const auto [status, text] = in_a_process([] {
    (void)std::signal(SIGQUIT, [](int) { taken = 1; });
    {
      const shown_activity one([] { return activity{"x"}; });
      (void)raise(SIGQUIT);
    }
    if (taken != 1) _exit(1);
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(text, "");
}

TEST_F(activities, give_sigquit_back_and_a_child_has_its_own) {
  const auto [status, text] = in_a_process([] {
    {
      const shown_activity one([] { return activity{"x"}; });
      const pid_t child = fork();
      if (child == 0) {
        (void)raise(SIGQUIT);
        _exit(7);
      }
      int how = 0;
      waitpid(child, &how, 0);
      if (!WIFSIGNALED(how) || WTERMSIG(how) != SIGQUIT) _exit(1);
      const pid_t shows = fork();
      if (shows == 0) {
        const shown_activity own([] { return activity{"y", seconds_now()}; });
        (void)raise(SIGQUIT);
        usleep(300'000);
        exit(0);  // NOLINT: runs the destructors of objects that the parent has made
      }
      waitpid(shows, &how, 0);
      if (how != 0) _exit(2);
    }
    (void)raise(SIGQUIT);
    usleep(300'000);
  });
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGQUIT) << status;
  EXPECT_NE(text.find("\n  y, for 0 s\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("\n  x, for"), std::string::npos) << text;
}

TEST(duration, is_for_people) {
  EXPECT_EQ(duration_text(-1), "0 s");
  EXPECT_EQ(duration_text(59.4), "59 s");
  EXPECT_EQ(duration_text(61), "1 min 1 s");
  EXPECT_EQ(duration_text(90000), "25 h 0 min");
}

}  // namespace
}  // namespace interlace::activities_tests
