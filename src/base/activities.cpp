#include "base/activities.hpp"

#include <fcntl.h>
#include <poll.h>
#include <pwd.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/processes.hpp"

namespace interlace {

namespace {

constexpr const char* folder_of_sockets = "interlace-ps";
constexpr int patience_ms = 1000;  // longest wait for a client that takes no bytes

// --- texts

// Replaces every byte that is not printable ASCII by \xNN, because the text can be shown on a
// terminal.
std::string printable(std::string_view text) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string made;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= ' ' && byte < 0x7f) {
      made += c;
    } else {
      made += {'\\', 'x', digits[byte / 16], digits[byte % 16]};
    }
  }
  return made;
}

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    lines.push_back(printable(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::string in_quotes(std::string_view text) {
  std::string made = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') made += '\\';
    made += c;
  }
  return made + '"';
}

// The words of the command line of this process.
std::vector<std::string> command_words() {
  std::vector<std::string> words;
  const descriptor file(open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC));
  std::string text(4096, '\0');
  const ssize_t size = file ? read(file.get(), text.data(), text.size()) : 0;
  text.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find('\0', at), text.size());
    words.push_back(printable(std::string_view(text).substr(at, end - at)));
    at = end + 1;
  }
  return words;
}

// --- the place of the socket

// Opens a folder that belongs to this user and to which nobody else has access. If the path ends in
// a symbolic link, the link is followed only if `links` is set.
descriptor open_own(int parent, const std::string& path, bool links) {
  const int flags = O_PATH | O_DIRECTORY | O_CLOEXEC | (links ? 0 : O_NOFOLLOW);
  descriptor folder(openat(parent, path.c_str(), flags));
  struct stat found {};
  if (!folder || fstat(folder.get(), &found) != 0 || found.st_uid != geteuid() ||
      (found.st_mode & 077U) != 0) {
    return {};
  }
  return folder;
}

std::string home() {
  const char* stated = std::getenv("HOME");  // NOLINT: no thread sets it
  if (stated != nullptr && *stated == '/') return stated;
  passwd entry{};
  passwd* found = nullptr;
  std::string room(16384, '\0');
  if (getpwuid_r(geteuid(), &entry, room.data(), room.size(), &found) != 0 || found == nullptr) {
    return {};
  }
  return entry.pw_dir;
}

// Opens the folder of sockets. This folder is in the first usable folder of the list in
// python/interlace/base/user_folder.py.
descriptor open_folder() {
  struct place {
    std::string path;
    bool ours;  // whether this program may make it
  };
  const std::string user = std::to_string(geteuid());
  const char* stated = std::getenv("XDG_RUNTIME_DIR");  // NOLINT: no thread sets it
  const std::string at_home = home();
  for (const place& p : {place{stated != nullptr && *stated == '/' ? stated : "", false},
                         place{"/run/user/" + user, false}, place{"/tmp/interlace-" + user, true},
                         place{at_home.empty() ? "" : at_home + "/.cache/interlace", true}}) {
    if (p.path.empty()) continue;
    if (p.ours) {
      if (p.path.starts_with(at_home + "/")) (void)mkdir((at_home + "/.cache").c_str(), 0700);
      (void)mkdir(p.path.c_str(), 0700);
    }
    const descriptor parent = open_own(AT_FDCWD, p.path, !p.ours);
    if (!parent) continue;
    (void)mkdirat(parent.get(), folder_of_sockets, 0700);
    if (descriptor made = open_own(parent.get(), folder_of_sockets, false)) return made;
  }
  return {};
}

// A listening socket. Its name, PROCESS.socket, appears only once the socket listens.
class listener {
 public:
  listener() : folder_(open_folder()), name_(std::to_string(getpid()) + ".socket") {
    if (!folder_) return;
    const std::string hidden = "." + name_;
    // A killed process with the same number can have left this name.
    (void)unlinkat(folder_.get(), hidden.c_str(), 0);
    descriptor made(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const sockaddr_un address = address_of(hidden);
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): the call's type
    const auto* place = reinterpret_cast<const sockaddr*>(&address);
    if (!made || bind(made.get(), place, sizeof(address)) != 0) return;
    // If another part of this process, such as a Python package, already listens at the name, that
    // part keeps the name.
    if (listen(made.get(), 16) != 0 || answers() ||
        renameat(folder_.get(), hidden.c_str(), folder_.get(), name_.c_str()) != 0) {
      (void)unlinkat(folder_.get(), hidden.c_str(), 0);
      return;
    }
    socket_ = std::move(made);
  }
  ~listener() {
    if (socket_) (void)unlinkat(folder_.get(), name_.c_str(), 0);
  }
  listener(const listener&) = delete;
  listener& operator=(const listener&) = delete;
  listener(listener&&) = delete;
  listener& operator=(listener&&) = delete;
  int get() const { return socket_.get(); }

 private:
  // The path leads through /proc, because the folder's own path may be too long for an address.
  sockaddr_un address_of(const std::string& name) const {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = "/proc/self/fd/" + std::to_string(folder_.get()) + "/" + name;
    std::copy_n(path.begin(), std::min(path.size(), sizeof(address.sun_path) - 1),
                std::begin(address.sun_path));
    return address;
  }
  // Whether another socket listens at the name. A killed process with the same number may have left
  // a name at which nothing listens.
  bool answers() const {
    const descriptor asker(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const sockaddr_un address = address_of(name_);
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): the call's type
    const auto* place = reinterpret_cast<const sockaddr*>(&address);
    return asker && connect(asker.get(), place, sizeof(address)) == 0;
  }

  descriptor folder_;
  std::string name_;
  descriptor socket_;
};

// --- SIGQUIT

std::atomic<int> signalled{-1};    // descriptor to which the handler writes
std::atomic<pid_t> answering{-1};  // process whose thread reads from that descriptor

void note_signal(int number) {
  if (getpid() != answering.load()) {  // a forked child has no thread that answers
    (void)std::signal(number, SIG_DFL);
    (void)std::raise(number);
    return;
  }
  const int error = errno;
  const std::uint64_t one = 1;
  (void)!write(signalled.load(), &one, sizeof(one));
  errno = error;
}

// Handles SIGQUIT while this object lives, unless the program uses or ignores the signal. The
// destructor restores the default action.
class quit_signal {
 public:
  explicit quit_signal(int to) {
    struct sigaction now {};
    if (sigaction(SIGQUIT, nullptr, &now) != 0 || (now.sa_flags & SA_SIGINFO) != 0 ||
        (now.sa_handler != SIG_DFL && now.sa_handler != note_signal)) {
      return;
    }
    signalled = to;
    answering = getpid();
    struct sigaction ours {};
    ours.sa_handler = note_signal;
    ours.sa_flags = SA_RESTART;
    taken_ = sigaction(SIGQUIT, &ours, nullptr) == 0;
  }
  ~quit_signal() {
    struct sigaction now {};
    if (taken_ && sigaction(SIGQUIT, nullptr, &now) == 0 && now.sa_handler == note_signal) {
      now.sa_handler = SIG_DFL;
      (void)sigaction(SIGQUIT, &now, nullptr);
    }
  }
  quit_signal(const quit_signal&) = delete;
  quit_signal& operator=(const quit_signal&) = delete;
  quit_signal(quit_signal&&) = delete;
  quit_signal& operator=(quit_signal&&) = delete;

 private:
  bool taken_ = false;
};

// --- the thread

using describer = std::function<activity()>;

class server {
 public:
  server() : stop_(eventfd(0, EFD_CLOEXEC)), asked_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!stop_ || !asked_) throw std::system_error(errno, std::generic_category());
    // This thread blocks all signals, so that signals of the program never interrupt its calls.
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
      thread_ = std::thread([this] { run(); });
    } catch (...) {
      (void)pthread_sigmask(SIG_SETMASK, &before, nullptr);
      throw;
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  ~server() {
    const std::uint64_t one = 1;
    (void)!write(stop_.get(), &one, sizeof(one));
    thread_.join();
  }
  server(const server&) = delete;
  server& operator=(const server&) = delete;
  server(server&&) = delete;
  server& operator=(server&&) = delete;

  bool is_of_this_process() const { return getpid() == process_; }
  void add(const describer* one) {
    const std::lock_guard lock(mutex_);
    shown_.push_back(one);
  }
  // Returns whether the activity was shown.
  bool remove(const describer* one) {
    const std::lock_guard lock(mutex_);
    return std::erase(shown_, one) != 0;
  }

 private:
  void run() {
    for (;;) {
      pollfd waits[] = {
          {stop_.get(), POLLIN, 0}, {asked_.get(), POLLIN, 0}, {at_.get(), POLLIN, 0}};
      if (poll(waits, std::size(waits), -1) < 0) continue;
      if (waits[0].revents != 0) return;
      try {
        if (waits[1].revents != 0) print();
        if (waits[2].revents != 0) tell();
      } catch (const std::exception&) {  // an answer that fails must not prevent the next answer
        continue;
      }
    }
  }

  std::vector<activity> activities() {
    std::vector<activity> found;
    const std::lock_guard lock(mutex_);
    for (const describer* one : shown_) {
      try {
        found.push_back((*one)());
      } catch (const std::exception& e) {
        found.push_back({"unknown", seconds_now(), e.what()});
      }
    }
    return found;
  }

  void print() {
    std::uint64_t times = 0;
    (void)!read(asked_.get(), &times, sizeof(times));
    std::string text = "process " + std::to_string(process_) + ":";
    for (const std::string& word : command_words()) text += " " + word;
    text += '\n';
    for (const activity& one : activities()) {
      text +=
          "  " + printable(one.what) + ", for " + duration_text(seconds_now() - one.since) + '\n';
      for (const std::string& line : lines_of(one.note)) text += "    " + line + '\n';
    }
    (void)!write(STDERR_FILENO, text.data(), text.size());
  }

  std::string answer() {
    std::string words;
    for (const std::string& word : command_words()) {
      words += (words.empty() ? "" : ", ") + in_quotes(word);
    }
    std::string all;
    for (const activity& one : activities()) {
      std::string note;
      for (const std::string& line : lines_of(one.note)) {
        if (!note.empty()) note += "\\n";
        note += in_quotes(line).substr(1);
        note.pop_back();
      }
      all += (all.empty() ? "{\"what\": " : ", {\"what\": ") + in_quotes(printable(one.what)) +
             ", \"since\": " + std::to_string(one.since) +
             R"(, "done": 0, "steps": 0, "unit": "", "last": null, "note": ")" + note + "\"}";
    }
    return "{\"process\": " + std::to_string(process_) + ", \"command\": [" + words +
           "], \"activities\": [" + all + "], \"waits\": []}";
  }

  void tell() {
    const descriptor asker(accept4(at_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!asker) return;
    const timeval patience{patience_ms / 1000, 0};
    (void)setsockopt(asker.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    const std::string text = answer();
    for (std::string_view left = text; !left.empty();) {
      const ssize_t sent = send(asker.get(), left.data(), left.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;
      left.remove_prefix(static_cast<std::size_t>(sent));
    }
  }

  pid_t process_ = getpid();
  // A thread holds this mutex while it makes a description, so that no activity ends meanwhile.
  std::mutex mutex_;
  std::vector<const describer*> shown_;
  listener at_;
  descriptor stop_;
  descriptor asked_;
  quit_signal quit_{asked_.get()};
  std::thread thread_;
};

std::mutex starting;
std::size_t activities_shown = 0;

// The server of this process, or null if the process has none. A forked child drops the server of
// its parent: the parent's thread does not run in the child, and its locks may be held forever. The
// pointer is a plain pointer, because the end of such a child must not wait for that thread.
server*& the_server() {
  static server* one = nullptr;
  if (one != nullptr && !one->is_of_this_process()) {
    one = nullptr;
    activities_shown = 0;
  }
  return one;
}

}  // namespace

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string duration_text(double seconds) {
  const auto whole = std::llround(std::max(0.0, seconds));
  if (whole < 60) return std::to_string(whole) + " s";
  if (whole < 3600) {
    return std::to_string(whole / 60) + " min " + std::to_string(whole % 60) + " s";
  }
  return std::to_string(whole / 3600) + " h " + std::to_string(whole % 3600 / 60) + " min";
}

shown_activity::shown_activity(std::function<activity()> describe)
    : describe_(std::move(describe)) {
  const std::lock_guard lock(starting);
  try {
    if (the_server() == nullptr) the_server() = std::make_unique<server>().release();
    the_server()->add(&describe_);
    ++activities_shown;
  } catch (const std::exception&) {  // the program continues, but is not shown
    return;
  }
}

shown_activity::~shown_activity() {
  const std::lock_guard lock(starting);
  server*& one = the_server();
  if (one != nullptr && one->remove(&describe_) && --activities_shown == 0) {
    const std::unique_ptr<server> last(std::exchange(one, nullptr));
  }
}

}  // namespace interlace
