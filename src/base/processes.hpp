// Connections between processes of one user on one machine. They carry messages with file
// descriptors, and report a process that ends.
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

// Owns a file descriptor. The value -1 means that the object owns no descriptor.
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

// An address of this process: a Unix socket in a folder that only the process's user may enter. The
// destructor removes the socket and the folder.
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

  // Connects to all other processes. paths[r] is rank r's meeting point, and `own` is this
  // process's meeting point. All processes must call the constructor. Throws device_error if
  // connecting takes longer than the deadline, or if a process of another user answers.
  peer_processes(std::uint32_t rank, const std::vector<std::string>& paths,
                 const meeting_point& own, std::chrono::duration<double> deadline);
  // Tells the other processes that this process ends regularly. Without this notice, they would
  // report a crash.
  ~peer_processes();
  peer_processes(const peer_processes&) = delete;
  peer_processes& operator=(const peer_processes&) = delete;
  peer_processes(peer_processes&&) = delete;
  peer_processes& operator=(peer_processes&&) = delete;

  // Functions that a thread of this object calls.
  struct watcher {
    // The thread calls this function once for each process that ends without a notice of a regular
    // end.
    std::function<void(std::uint32_t rank)> ended{};
    std::function<void(std::uint32_t rank, const std::string& text)> told{};
    std::function<void()> regularly{};  // called about every 10 ms
  };
  void watch(watcher w);
  // Sends the text to all other processes. A process that has a watcher calls `told` with the text.
  // Does not block.
  void tell(const std::string& text) noexcept;

  // Sends a message of at most 64 KiB and 250 descriptors. The caller keeps ownership of the
  // descriptors.
  void send(std::uint32_t to, std::uint64_t tag, const std::string& bytes,
            const std::vector<int>& descriptors = {});
  // Receives the next message with this tag. Throws device_error if the process of rank `from` ends
  // or the deadline passes. The error names the rank.
  message receive(std::uint32_t from, std::uint64_t tag);

 private:
  struct peer {
    descriptor messages;
    descriptor life;     // socket for texts and for the notice of a regular end
    descriptor process;  // pidfd, or no descriptor if this process cannot see the other process
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
