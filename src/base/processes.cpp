#include "base/processes.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <system_error>

#include "interlace/base/errors.hpp"

namespace interlace {

namespace {

using clock = std::chrono::steady_clock;

constexpr std::size_t most_bytes = 64 * 1024;
constexpr std::size_t most_descriptors = 250;  // the kernel's limit is 253
constexpr std::size_t most_told = 4096;
constexpr char goodbye = 'b';
constexpr char tells = 't';
constexpr int between_looks_ms = 10;

enum class purpose : std::uint32_t { messages, life };
struct hello {
  std::uint32_t rank;
  purpose what;
};

[[noreturn]] void throw_errno(const std::string& what) {
  throw device_error(what + " failed: " + std::generic_category().message(errno));
}

std::string name_of(std::uint32_t rank) { return "rank " + std::to_string(rank); }

// Waits until the descriptor has data or its other end closes. Returns false if `end` comes first.
bool readable(int fd, clock::time_point end) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - clock::now()).count();
    pollfd p{fd, POLLIN, 0};
    const int found = poll(&p, 1, static_cast<int>(std::clamp<decltype(left)>(left, 0, 1'000'000)));
    if (found > 0) return true;
    if (found < 0 && errno != EINTR) throw_errno("poll");
    if (clock::now() >= end) return false;
  }
}

descriptor open_socket() {
  descriptor made(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!made) throw_errno("socket");
  return made;
}

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    throw device_error("the path of a socket is too long: " + path);
  }
  std::copy(path.begin(), path.end(), std::begin(address.sun_path));
  return address;
}

// Opens the process at the other end of the socket. That process must belong to the same user.
// Returns the process's pidfd, or no descriptor if this process cannot see the other process.
descriptor open_process(int socket, const std::string& who) {
  ucred other{};
  socklen_t size = sizeof(other);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &other, &size) != 0) throw_errno("SO_PEERCRED");
  if (other.uid != geteuid()) {
    throw device_error(who + " is a process of another user; all ranks must belong to one user");
  }
  if (other.pid <= 0) return {};
  return descriptor(static_cast<int>(syscall(SYS_pidfd_open, other.pid, 0)));
}

void say(int socket, const void* data, std::size_t bytes, const std::string& who) {
  if (::send(socket, data, bytes, MSG_NOSIGNAL) != static_cast<ssize_t>(bytes)) {
    throw_errno("a message to " + who);
  }
}

}  // namespace

descriptor::~descriptor() {
  if (fd_ >= 0) close(fd_);
}

meeting_point::meeting_point() : socket_(open_socket()) {
  const char* own = std::getenv("XDG_RUNTIME_DIR");  // NOLINT: no thread sets it
  for (const std::string base : {own != nullptr ? own : "", "/tmp"}) {
    folder_ = base + "/interlace-XXXXXX";
    if (base.empty() || folder_.size() > 80) continue;
    if (mkdtemp(folder_.data()) != nullptr) break;  // creates the folder with mode 0700
    folder_.clear();
  }
  if (folder_.empty()) throw_errno("making a folder for a socket in XDG_RUNTIME_DIR or /tmp");
  path_ = folder_ + "/socket";
  const sockaddr_un address = address_of(path_);
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): the call's type
  if (bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      listen(socket_.get(), 64) != 0) {
    const int error = errno;
    unlink(path_.c_str());
    rmdir(folder_.c_str());
    errno = error;
    throw_errno("listening at " + path_);
  }
}

meeting_point::~meeting_point() {
  unlink(path_.c_str());
  rmdir(folder_.c_str());
}

peer_processes::peer_processes(std::uint32_t rank, const std::vector<std::string>& paths,
                               const meeting_point& own, std::chrono::duration<double> deadline)
    : rank_(rank), deadline_(deadline), peers_(paths.size()) {
  const auto end = clock::now() + std::chrono::duration_cast<clock::duration>(deadline);
  const auto keep = [&](std::uint32_t other, purpose what, descriptor made) {
    peer& p = peers_[other];
    if (what == purpose::messages) p.process = open_process(made.get(), name_of(other));
    (what == purpose::messages ? p.messages : p.life) = std::move(made);
  };
  for (std::uint32_t other = 0; other < rank; ++other) {
    for (const purpose what : {purpose::messages, purpose::life}) {
      descriptor made = open_socket();
      const sockaddr_un address = address_of(paths[other]);
      // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): the call's type
      if (connect(made.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
        throw_errno("connecting with " + name_of(other) +
                    " (all ranks run on one machine and see one /tmp)");
      }
      const hello own_hello{rank, what};
      say(made.get(), &own_hello, sizeof(own_hello), name_of(other));
      keep(other, what, std::move(made));
    }
  }
  for (std::size_t k = 2 * (paths.size() - 1 - rank); k > 0; --k) {
    if (!readable(own.socket(), end)) {
      throw device_error("a rank above " + std::to_string(rank) +
                         " did not connect within the deadline");
    }
    descriptor made(accept4(own.socket(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!made) throw_errno("accept");
    hello other{};
    if (!readable(made.get(), end) || recv(made.get(), &other, sizeof(other), 0) != sizeof(other) ||
        other.rank <= rank || other.rank >= paths.size()) {
      throw device_error("a process that is not a rank of the group connected");
    }
    keep(other.rank, other.what, std::move(made));
  }
}

peer_processes::~peer_processes() {
  if (watcher_.joinable()) {
    const std::uint64_t one = 1;
    (void)!write(stop_.get(), &one, sizeof(one));
    watcher_.join();
  }
  for (const peer& p : peers_) {
    if (p.life) (void)::send(p.life.get(), &goodbye, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
  }
}

void peer_processes::watch(watcher w) {
  stop_ = descriptor(eventfd(0, EFD_CLOEXEC));
  if (!stop_) throw_errno("eventfd");
  watcher_ = std::thread([this, w = std::move(w)] { look_after(w); });
}

void peer_processes::tell(const std::string& text) noexcept {
  for (const peer& p : peers_) {
    if (!p.life) continue;
    char kind = tells;
    std::array<iovec, 2> parts{
        iovec{&kind, 1},
        iovec{const_cast<char*>(text.data()), std::min(text.size(), most_told - 1)}};  // NOLINT
    msghdr m{};
    m.msg_iov = parts.data();
    m.msg_iovlen = parts.size();
    (void)sendmsg(p.life.get(), &m, MSG_NOSIGNAL | MSG_DONTWAIT);
  }
}

void peer_processes::look_after(const watcher& w) const {
  std::vector<std::uint32_t> there;
  for (std::uint32_t r = 0; r < peers_.size(); ++r) {
    if (r != rank_) there.push_back(r);
  }
  for (;;) {
    std::vector<pollfd> looks{{stop_.get(), POLLIN, 0}};
    for (const std::uint32_t r : there) {
      looks.push_back({peers_[r].life.get(), POLLIN, 0});
      looks.push_back({peers_[r].process.get(), POLLIN, 0});  // poll ignores a descriptor of -1
    }
    if (poll(looks.data(), looks.size(), between_looks_ms) < 0 && errno != EINTR) return;
    if (looks[0].revents != 0) return;
    if (w.regularly) w.regularly();
    std::vector<std::uint32_t> left;
    for (std::size_t k = 0; k < there.size(); ++k) {
      const std::uint32_t rank = there[k];
      bool stays = looks[2 * k + 1].revents == 0 && looks[2 * k + 2].revents == 0;
      if (!stays) {
        // A process that has ended may have sent messages before its end. These messages are read
        // first.
        std::string said(most_told, 0);
        const ssize_t got = recv(peers_[rank].life.get(), said.data(), said.size(), MSG_DONTWAIT);
        if (got > 0 && said[0] == tells) {
          said.resize(static_cast<std::size_t>(got));
          if (w.told) w.told(rank, said.substr(1));
          stays = true;
        } else if (got <= 0 && w.ended) {
          w.ended(rank);
        }
      }
      if (stays) left.push_back(rank);
    }
    there = std::move(left);
  }
}

void peer_processes::send(std::uint32_t to, std::uint64_t tag, const std::string& bytes,
                          const std::vector<int>& descriptors) {
  if (bytes.size() > most_bytes || descriptors.size() > most_descriptors) {
    throw device_error("a message of " + std::to_string(bytes.size()) + " bytes and " +
                       std::to_string(descriptors.size()) + " descriptors is too large");
  }
  std::array<iovec, 2> parts{
      iovec{&tag, sizeof(tag)},
      iovec{const_cast<char*>(bytes.data()), bytes.size()}};  // NOLINT: sendmsg reads only
  msghdr m{};
  m.msg_iov = parts.data();
  m.msg_iovlen = parts.size();
  std::vector<char> control(CMSG_SPACE(descriptors.size() * sizeof(int)));
  if (!descriptors.empty()) {
    m.msg_control = control.data();
    m.msg_controllen = control.size();
    cmsghdr* c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(descriptors.size() * sizeof(int));
    std::memcpy(CMSG_DATA(c), descriptors.data(), descriptors.size() * sizeof(int));
  }
  if (sendmsg(peers_.at(to).messages.get(), &m, MSG_NOSIGNAL) < 0) {
    throw_errno("a message to " + name_of(to));
  }
}

peer_processes::message peer_processes::receive(std::uint32_t from, std::uint64_t tag) {
  peer& p = peers_.at(from);
  const auto end = clock::now() + std::chrono::duration_cast<clock::duration>(deadline_);
  for (;;) {
    if (const auto known = p.early.find(tag); known != p.early.end()) {
      message found = std::move(known->second);
      p.early.erase(known);
      return found;
    }
    if (!readable(p.messages.get(), end)) {
      throw device_error(name_of(from) + " sent nothing within the deadline");
    }
    std::uint64_t seen_tag = 0;
    message seen;
    seen.bytes.resize(most_bytes);
    std::array<iovec, 2> parts{iovec{&seen_tag, sizeof(seen_tag)},
                               iovec{seen.bytes.data(), seen.bytes.size()}};
    std::vector<char> control(CMSG_SPACE(most_descriptors * sizeof(int)));
    msghdr m{};
    m.msg_iov = parts.data();
    m.msg_iovlen = parts.size();
    m.msg_control = control.data();
    m.msg_controllen = control.size();
    const ssize_t got = recvmsg(p.messages.get(), &m, MSG_CMSG_CLOEXEC);
    if (got < 0 && errno != ECONNRESET) throw_errno("a message from " + name_of(from));
    for (cmsghdr* c = CMSG_FIRSTHDR(&m); got > 0 && c != nullptr; c = CMSG_NXTHDR(&m, c)) {
      if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
      std::vector<int> fds((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
      std::memcpy(fds.data(), CMSG_DATA(c), fds.size() * sizeof(int));
      for (const int fd : fds) seen.descriptors.emplace_back(fd);
    }
    if (got < static_cast<ssize_t>(sizeof(seen_tag))) {
      throw device_error(name_of(from) + " ended");
    }
    if ((m.msg_flags & MSG_CTRUNC) != 0) {
      throw device_error("descriptors from " + name_of(from) +
                         " were lost: this process may not open more files (ulimit -n)");
    }
    seen.bytes.resize(static_cast<std::size_t>(got) - sizeof(seen_tag));
    p.early.emplace(seen_tag, std::move(seen));
  }
}

}  // namespace interlace
