// Processes of one machine and one user that stay in touch: messages with file descriptors, and
// word of a process that ends.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace interlace {

// Owns a file descriptor; -1: none.
class descriptor {
 public:
  descriptor() = default;
  explicit descriptor(int fd) : fd_(fd) {}
  ~descriptor();
  descriptor(descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  descriptor& operator=(descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  descriptor(const descriptor&) = delete;
  descriptor& operator=(const descriptor&) = delete;
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

// Where a process can be reached: a Unix socket in a folder that only its user may enter. Both are
// gone with the object.
class meeting_point {
 public:
  meeting_point();
  ~meeting_point();
  meeting_point(const meeting_point&) = delete;
  meeting_point& operator=(const meeting_point&) = delete;
  meeting_point(meeting_point&&) = delete;
  meeting_point& operator=(meeting_point&&) = delete;
  const std::string& path() const { return path_; }
  int socket() const { return socket_.get(); }

 private:
  std::string folder_;
  std::string path_;
  descriptor socket_;
};

class peer_processes {
 public:
  struct message {
    std::string bytes;
    std::vector<descriptor> descriptors;
  };

  // Connects with all others. paths[r] is rank r's meeting point, own that of this process. By all
  // of them; throws device_error if that takes longer than the deadline, or if a process of another
  // user answers.
  peer_processes(std::uint32_t rank, const std::vector<std::string>& paths,
                 const meeting_point& own, std::chrono::duration<double> deadline);
  // Says goodbye: the others do not take it for a crash.
  ~peer_processes();
  peer_processes(const peer_processes&) = delete;
  peer_processes& operator=(const peer_processes&) = delete;
  peer_processes(peer_processes&&) = delete;
  peer_processes& operator=(peer_processes&&) = delete;

  // Called from a thread of its own.
  struct watcher {
    // Once for a process that ends without goodbye.
    std::function<void(std::uint32_t rank)> ended{};
    std::function<void(std::uint32_t rank, const std::string& text)> told{};
    std::function<void()> regularly{};  // every 10 ms
  };
  void watch(watcher w);
  // Reaches the `told` of all others, if they watch; does not wait.
  void tell(const std::string& text) noexcept;

  // At most 64 KiB and 250 descriptors, which stay the caller's.
  void send(std::uint32_t to, std::uint64_t tag, const std::string& bytes,
            const std::vector<int>& descriptors = {});
  // The next message of that tag. Throws device_error that names the rank if it ends or the
  // deadline passes.
  message receive(std::uint32_t from, std::uint64_t tag);

 private:
  struct peer {
    descriptor messages;
    descriptor life;     // carries what is told, and the goodbye
    descriptor process;  // a pidfd; none where the process cannot be seen
    std::multimap<std::uint64_t, message> early;
  };
  void look_after(const watcher& w) const;

  std::uint32_t rank_;
  std::chrono::duration<double> deadline_;
  std::vector<peer> peers_;
  descriptor stop_;
  std::thread watcher_;
};

}  // namespace interlace
