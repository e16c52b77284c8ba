#include "checkpoint/transfer.hpp"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <system_error>
#include <thread>
#include <utility>

#include "checkpoint/crc32c.hpp"
#include "interlace/base/errors.hpp"

namespace interlace::checkpoint {

namespace {

using steady = std::chrono::steady_clock;

constexpr std::chrono::microseconds poll_interval{20};
constexpr std::chrono::milliseconds wake_interval{20};

enum class direction { read, write };

std::string file_error(const file& of, const char* what, int error) {
  return of.name + " cannot be " + what + ": " + std::generic_category().message(error);
}

void read_all(const file& from, std::uint64_t offset, char* to, std::uint64_t bytes) {
  while (bytes != 0) {
    const ssize_t got = pread(from.descriptor, to, bytes, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw device_error(file_error(from, "read", errno));
    if (got == 0) {
      struct stat now {};
      (void)fstat(from.descriptor, &now);
      throw usage_error(from.name + " was truncated while it was read: it ends at byte " +
                        std::to_string(now.st_size));
    }
    const auto moved = static_cast<std::uint64_t>(got);
    offset += moved;
    to += moved;
    bytes -= moved;
  }
}

void write_all(const file& into, std::uint64_t offset, const char* from, std::uint64_t bytes) {
  while (bytes != 0) {
    const ssize_t put = pwrite(into.descriptor, from, bytes, static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) throw device_error(file_error(into, "written", put < 0 ? errno : EIO));
    const auto moved = static_cast<std::uint64_t>(put);
    offset += moved;
    from += moved;
    bytes -= moved;
  }
}

// Large pages cause fewer page faults. Memory that cannot have them stays as it is.
void want_large_pages(const part& p) {
  constexpr std::uintptr_t large = std::uintptr_t{2} << 20U;
  const std::uintptr_t begin = (p.address + large - 1) / large * large;
  const std::uintptr_t end = (p.address + p.bytes) / large * large;
  if (begin < end) (void)madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
}

// Threads take pieces in order. A chunk of a GPU uses slot `turn` modulo the number of slots.
//   reading: threads read all its pieces into the slot, then the chunk is sent. A thread that needs
//            the slot for a later chunk waits until that is complete.
//   writing: the chunk is fetched. A thread that takes one of its pieces waits until that is
//            complete. When all pieces are written, the slot's next chunk is fetched.
// The first of the chunks that have pieces left never waits for a later chunk.
class mover {
 public:
  mover(direction way, const std::vector<file>& files, layout plan, carrier* gpus,
        const transfer_options& options)
      : way_(way),
        files_(files),
        plan_(std::move(plan)),
        gpus_(gpus),
        options_(options),
        left_(plan_.chunks.size()),
        checksums_(options.checksums ? plan_.pieces.size() : 0) {
    for (std::size_t c = 0; c < plan_.chunks.size(); ++c) {
      left_[c].store(plan_.chunks[c].pieces, std::memory_order_relaxed);
      if (plan_.chunks[c].gpu != host) staged_.push_back(static_cast<std::uint32_t>(c));
    }
    if (staged_.empty()) return;
    const std::size_t slots = std::min<std::size_t>(gpus_->slots(), staged_.size());
    for (std::size_t s = 0; s < slots; ++s) {
      slots_.emplace_back().turn = static_cast<std::uint32_t>(s);
    }
  }

  void run() {
    std::vector<std::thread> threads;
    try {
      if (way_ == direction::write) {
        for (std::uint32_t turn = 0; turn < slots_.size(); ++turn) enqueue(turn);
      }
      start(threads);
      watch();
    } catch (...) {
      fail(std::current_exception());
    }
    for (std::thread& t : threads) t.join();
    drain();
    if (error_) std::rethrow_exception(error_);
    if (options_.progress) options_.progress(plan_.bytes);
  }

  std::vector<std::uint32_t> checksums(std::size_t tensors) const {
    std::vector<std::uint32_t> found(options_.checksums ? tensors : 0);
    if (found.empty()) return found;
    for (std::size_t k = 0; k < plan_.pieces.size(); ++k) {
      const piece& p = plan_.pieces[k];
      std::uint32_t& own = found[plan_.parts[p.part].tensor];
      own = join_crc32c(own, checksums_[k], p.bytes);
    }
    return found;
  }

 private:
  struct slot_state {
    std::uint32_t turn = 0;
    bool moving = false;  // the chunk is on its way from or to a GPU
    bool polled = false;  // one thread polls and notifies the other threads
    steady::time_point since;
    std::condition_variable changed;
  };

  std::span<const part> parts_of(const chunk& c) const {
    return std::span(plan_.parts).subspan(c.first_part, c.parts);
  }

  void start(std::vector<std::thread>& threads) {
    const std::size_t wanted =
        std::min<std::size_t>(std::max<std::uint32_t>(options_.threads, 1), plan_.pieces.size());
    for (std::size_t k = 0; k < wanted; ++k) {
      {
        const std::lock_guard lock(mutex_);
        ++working_;
      }
      try {
        threads.emplace_back([this] { work(); });
      } catch (const std::system_error& e) {
        const std::lock_guard lock(mutex_);
        --working_;
        if (k != 0) return;  // the threads that run do all the work
        throw device_error(std::string("no thread can be started: ") + e.what());
      }
    }
  }

  // Waits until all threads have ended, or the caller's function has thrown.
  void watch() {
    auto told = steady::now();
    std::unique_lock lock(mutex_);
    while (working_ != 0) {
      ended_.wait_for(lock, wake_interval);
      const auto now = steady::now();
      if (!options_.progress || failed_ || now - told < wake_interval) continue;
      told = now;
      lock.unlock();
      options_.progress(moved_.load(std::memory_order_relaxed));
      lock.lock();
    }
  }

  void work() {
    try {
      for (;;) {
        const std::size_t k = next_.fetch_add(1, std::memory_order_relaxed);
        if (k >= plan_.pieces.size() || failed_) break;
        const piece& p = plan_.pieces[k];
        if (!move(p, k)) break;
        moved_.fetch_add(p.bytes, std::memory_order_relaxed);
        if (left_[p.chunk].fetch_sub(1, std::memory_order_acq_rel) == 1) complete(p.chunk);
      }
    } catch (...) {
      fail(std::current_exception());
    }
    const std::lock_guard lock(mutex_);
    --working_;
    ended_.notify_all();
  }

  // Returns false if the transfer has failed in the meantime.
  bool move(const piece& p, std::size_t number) {
    const chunk& c = plan_.chunks[p.chunk];
    const part& whole = plan_.parts[p.part];
    char* memory = nullptr;
    if (c.gpu == host) {
      memory = reinterpret_cast<char*>(whole.address) + p.begin;
    } else {
      if (!await(c.turn)) return false;
      memory = gpus_->slot(slot_of(c.turn), c.gpu) + whole.slot_offset + p.begin;
    }
    const file& f = files_[whole.file];
    if (way_ == direction::read) {
      read_all(f, whole.offset + p.begin, memory, p.bytes);
    } else {
      write_all(f, whole.offset + p.begin, memory, p.bytes);
    }
    if (options_.checksums) checksums_[number] = crc32c({memory, p.bytes});
    return true;
  }

  // All pieces of a chunk have been read or written.
  void complete(std::uint32_t number) {
    const chunk& c = plan_.chunks[number];
    if (c.gpu == host) return;
    if (way_ == direction::read) {
      enqueue(c.turn);
    } else if (c.turn + slots_.size() < staged_.size()) {
      enqueue(c.turn + static_cast<std::uint32_t>(slots_.size()));
    }
  }

  std::uint32_t slot_of(std::uint32_t turn) const {
    return turn % static_cast<std::uint32_t>(slots_.size());
  }

  void enqueue(std::uint32_t turn) {
    const std::uint32_t slot = slot_of(turn);
    const auto parts = parts_of(plan_.chunks[staged_[turn]]);
    if (way_ == direction::read) {
      gpus_->send(slot, parts);
    } else {
      gpus_->fetch(slot, parts);
    }
    const std::lock_guard lock(mutex_);
    slots_[slot].turn = turn;
    slots_[slot].moving = true;
    slots_[slot].since = steady::now();
    slots_[slot].changed.notify_one();  // wakes the thread that will poll it
  }

  // Waits until the slot belongs to the chunk: for reading it is empty, for writing it holds the
  // fetched data.
  bool await(std::uint32_t turn) {
    const std::uint32_t number = slot_of(turn);
    slot_state& s = slots_[number];
    std::unique_lock lock(mutex_);
    while (s.moving || s.turn != turn) {
      if (failed_) return false;
      if (s.moving && !s.polled) {
        poll(number, lock);
      } else {
        s.changed.wait_for(lock, wake_interval);
      }
    }
    return !failed_;
  }

  // Polls until the slot's copies have arrived, or the transfer has failed.
  void poll(std::uint32_t number, std::unique_lock<std::mutex>& lock) {
    slot_state& s = slots_[number];
    s.polled = true;
    const auto end = s.since + std::chrono::duration<double>(options_.deadline_s);
    bool done = false;
    std::exception_ptr error;
    while (!done && !error && !failed_) {
      lock.unlock();
      try {
        done = gpus_->done(number);
        if (!done) {
          if (steady::now() > end) late(s.turn);
          std::this_thread::sleep_for(poll_interval);
        }
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
    }
    s.polled = false;
    if (done) arrived(s);
    s.changed.notify_all();
    if (error) {
      lock.unlock();
      std::rethrow_exception(error);
    }
  }

  void arrived(slot_state& s) {
    s.moving = false;
    if (way_ == direction::read) s.turn += static_cast<std::uint32_t>(slots_.size());
  }

  [[noreturn]] void late(std::uint32_t turn) const {
    const chunk& c = plan_.chunks[staged_[turn]];
    const part& first = plan_.parts[c.first_part];
    std::array<char, 32> deadline{};
    std::snprintf(deadline.data(), deadline.size(), "%g", options_.deadline_s);
    throw device_error("the bytes from " + std::to_string(first.offset) + " on of " +
                       files_[first.file].name + " did not get " +
                       (way_ == direction::read ? "to" : "from") + " GPU " + std::to_string(c.gpu) +
                       " in " + deadline.data() +
                       " s; the GPU hangs, or something else keeps it busy");
  }

  void fail(std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = std::move(error);
    failed_ = true;
    ended_.notify_all();
    for (slot_state& s : slots_) s.changed.notify_all();
  }

  // Waits until nothing is in flight in a slot, or the slots are abandoned.
  void drain() {
    bool lost = false;
    for (std::uint32_t number = 0; number < slots_.size(); ++number) {
      slot_state& s = slots_[number];
      const auto end = s.since + std::chrono::duration<double>(options_.deadline_s);
      while (s.moving && !lost) {
        try {
          if (gpus_->done(number)) {
            arrived(s);
            continue;
          }
          if (steady::now() > end) late(s.turn);
        } catch (...) {
          fail(std::current_exception());
          lost = true;
        }
        std::this_thread::sleep_for(poll_interval);
      }
    }
    if (lost) gpus_->abandon();
  }

  direction way_;
  const std::vector<file>& files_;
  layout plan_;
  carrier* gpus_;
  const transfer_options& options_;
  std::vector<std::uint32_t> staged_;             // chunks of GPUs, by turn
  std::vector<std::atomic<std::uint32_t>> left_;  // pieces left of each chunk
  std::vector<std::uint32_t> checksums_;          // checksum of each piece
  std::atomic<std::size_t> next_{0};
  std::atomic<std::uint64_t> moved_{0};
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  std::condition_variable ended_;  // signals the end of a thread, or of all threads
  std::deque<slot_state> slots_;
  std::size_t working_ = 0;
  std::exception_ptr error_;
};

std::vector<std::uint32_t> transfer(direction way, const std::vector<file>& files,
                                    std::vector<segment> segments, carrier* gpus,
                                    const transfer_options& options) {
  std::size_t tensors = 0;
  bool staged = false;
  for (const segment& s : segments) {
    if (s.file >= files.size())
      throw usage_error("a segment belongs to a file that does not exist");
    tensors = std::max<std::size_t>(tensors, std::size_t{s.tensor} + 1);
    staged = staged || s.gpu != host;
  }
  if (staged && gpus == nullptr)
    throw usage_error("a segment belongs to a GPU, but nothing copies to GPUs");
  cut how{.chunk_bytes = options.chunk_bytes,
          .piece_bytes = options.piece_bytes,
          .by_tensor = options.checksums};
  if (staged) how.chunk_bytes = std::min(how.chunk_bytes, gpus->slot_bytes());
  layout plan = lay_out(std::move(segments), how);
  if (way == direction::read) {
    for (const part& p : plan.parts) {
      if (p.gpu == host) want_large_pages(p);
    }
  }
  mover moving(way, files, std::move(plan), gpus, options);
  moving.run();
  return moving.checksums(tensors);
}

}  // namespace

std::vector<std::uint32_t> read_segments(const std::vector<file>& files,
                                         std::vector<segment> segments, carrier* gpus,
                                         const transfer_options& options) {
  return transfer(direction::read, files, std::move(segments), gpus, options);
}

std::vector<std::uint32_t> write_segments(const std::vector<file>& files,
                                          std::vector<segment> segments, carrier* gpus,
                                          const transfer_options& options) {
  return transfer(direction::write, files, std::move(segments), gpus, options);
}

}  // namespace interlace::checkpoint
