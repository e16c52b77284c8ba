#include "checkpoint/transfer.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
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
#include <tuple>
#include <utility>

#include "checkpoint/crc32c.hpp"
#include "checkpoint/direct_file.hpp"
#include "interlace/base/errors.hpp"

namespace interlace::checkpoint {

namespace {

using steady = std::chrono::steady_clock;

constexpr std::chrono::microseconds poll_interval{50};
constexpr std::chrono::milliseconds wake_interval{20};

std::string file_error(const file& of, const char* what, std::uint64_t offset, int error) {
  return of.name + " cannot be " + what + ": " + std::generic_category().message(error) +
         " (byte " + std::to_string(offset) + ")";
}

void read_all(const file& from, std::uint64_t offset, char* to, std::uint64_t bytes) {
  while (bytes != 0) {
    const ssize_t got = pread(from.descriptor, to, bytes, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw device_error(file_error(from, "read", offset, errno));
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
    if (put <= 0) throw device_error(file_error(into, "written", offset, put < 0 ? errno : EIO));
    const auto moved = static_cast<std::uint64_t>(put);
    offset += moved;
    from += moved;
    bytes -= moved;
  }
}

// Asks for large pages, which cause fewer page faults. Memory that cannot have large pages keeps
// its small pages.
void want_large_pages(const part& p) {
  constexpr std::uintptr_t large = std::uintptr_t{2} << 20U;
  const std::uintptr_t begin = (p.address + large - 1) / large * large;
  const std::uintptr_t end = (p.address + p.bytes) / large * large;
  if (begin < end) (void)madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
}

}  // namespace

// Threads take pieces in order. A chunk of a GPU needs a slot.
//   reading: the thread that takes the first piece of a chunk waits for an idle slot. When all
//            pieces have been read into the slot, the chunk is sent. The slot is idle again when
//            the chunk has arrived.
//   writing: a chunk is fetched into each idle slot. A thread that takes one of the chunk's pieces
//            waits until the chunk has arrived. When all pieces have been written, the slot is idle
//            again.
// A chunk that has a slot never waits for a chunk without a slot.
class reader::mover {
 public:
  enum class direction { read, write };

  mover(direction way, std::vector<file> files, carrier* gpus, transfer_options options)
      : way_(way), files_(std::move(files)), gpus_(gpus), options_(std::move(options)) {
    if (gpus_ != nullptr) slots_.resize(gpus_->slots());
    if (!options_.direct) return;
    for (const file& f : files_) direct_.emplace_back(f.descriptor);
  }

  std::size_t add(std::vector<segment> segments) {
    std::unique_lock lock(mutex_);
    require_open();
    lock.unlock();
    batch made;
    made.tensors = check(segments);
    cut how{.chunk_bytes = options_.chunk_bytes,
            .piece_bytes = options_.piece_bytes,
            .by_tensor = options_.checksums,
            .by_page = options_.direct};
    if (gpus_ != nullptr) how.chunk_bytes = std::min(how.chunk_bytes, gpus_->slot_bytes());
    made.plan = lay_out(std::move(segments), how);
    made.checksums.resize(options_.checksums ? made.plan.pieces.size() : 0);
    made.unmoved = made.plan.pieces.size();
    made.left = made.plan.chunks.size();
    made.chunks.reserve(made.plan.chunks.size());
    for (const chunk& c : made.plan.chunks) made.chunks.push_back({c.pieces, no_slot});
    if (way_ == direction::read) {
      for (const part& p : made.plan.parts) {
        if (p.gpu == host) want_large_pages(p);
      }
    }
    lock.lock();
    require_open();  // another thread may have closed the reader meanwhile
    made.number = batches_.size();
    pieces_ += made.plan.pieces.size();
    for (const chunk& c : made.plan.chunks) staged_ += c.gpu != host;
    batches_.push_back(std::move(made));
    if (gpus_ != nullptr)
      gpus_->expect(static_cast<std::uint32_t>(std::min(slots_.size(), staged_)));
    if (way_ == direction::write) {
      for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) fetch_next(slot, lock);
    }
    more_.notify_all();
    start();
    return batches_.size() - 1;
  }

  std::vector<std::uint32_t> wait(std::size_t number) {
    std::unique_lock lock(mutex_);
    const batch& of = batch_of(number);
    auto told = steady::now();
    while (of.left != 0) {
      require_open();
      // Threads that need slots also check whether chunks have arrived. Near the end no thread
      // needs a slot, so the waiting thread makes these checks itself.
      const bool near_end = of.unmoved == 0;
      if (near_end) ask_all(of, lock);
      if (of.left == 0) break;
      changed_.wait_for(lock, near_end ? poll_interval : wake_interval);
      const auto now = steady::now();
      if (now - told < wake_interval) continue;
      told = now;
      tell(lock);
    }
    require_open();
    tell(lock);
    return checksums(of);
  }

  bool done(std::size_t number) {
    std::unique_lock lock(mutex_);
    const batch& of = batch_of(number);
    require_open();
    if (of.left != 0) ask_all(of, lock);
    return of.left == 0;
  }

  std::string direct_problem() const {
    for (std::size_t k = 0; k < direct_.size(); ++k) {
      if (const int error = direct_[k].error(); error != 0)
        return files_[k].name + ": " + std::generic_category().message(error);
    }
    return "";
  }

  void close() noexcept {
    {
      const std::lock_guard lock(mutex_);
      if (closed_) return;  // the carrier may no longer exist
      closed_ = true;
      wake_all();
    }
    for (std::thread& t : threads_) t.join();
    threads_.clear();
    drain();
  }

 private:
  static constexpr std::uint32_t no_slot = UINT32_MAX;

  struct chunk_state {
    std::uint32_t pieces = 0;  // number of pieces that have not been read or written
    std::uint32_t slot = no_slot;
  };
  struct batch {
    std::size_t number = 0;
    layout plan;
    std::size_t tensors = 0;
    std::size_t unmoved = 0;  // number of pieces that have not been read or written
    std::size_t left = 0;     // number of chunks that are not complete
    std::vector<chunk_state> chunks;
    std::vector<std::uint32_t> checksums;  // checksum of each piece
  };
  struct slot_state {
    batch* of = nullptr;  // batch of the chunk in the slot; null if the slot is idle
    std::uint32_t chunk = 0;
    std::uint32_t user = 0;  // number of the thread that took the slot last
    bool moving = false;     // whether the chunk is on its way from or to a GPU
    // whether a thread checks whether the chunk has arrived, or sleeps before it checks
    bool asked = false;
    steady::time_point since;
  };
  struct place {  // the position of the next piece
    std::size_t batch = 0;
    std::size_t piece = 0;
  };
  struct taken {
    batch* of = nullptr;
    std::size_t piece = 0;
  };

  // Checks the segments. Returns the number of their tensors.
  std::size_t check(const std::vector<segment>& segments) const {
    std::size_t tensors = 0;
    for (const segment& s : segments) {
      if (s.file >= files_.size())
        throw usage_error("a segment belongs to a file that does not exist");
      if (s.gpu != host && gpus_ == nullptr)
        throw usage_error("a segment belongs to a GPU, but nothing copies to GPUs");
      tensors = std::max<std::size_t>(tensors, std::size_t{s.tensor} + 1);
    }
    return tensors;
  }

  std::vector<std::uint32_t> checksums(const batch& of) const {
    std::vector<std::uint32_t> found(options_.checksums ? of.tensors : 0);
    if (found.empty()) return found;
    for (std::size_t k = 0; k < of.plan.pieces.size(); ++k) {
      const piece& p = of.plan.pieces[k];
      std::uint32_t& own = found[of.plan.parts[p.part].tensor];
      own = join_crc32c(own, of.checksums[k], p.bytes);
    }
    return found;
  }

  // The caller of the functions below holds the mutex. Functions that take `lock` may release the
  // mutex meanwhile.

  // Starts a thread for each piece, but at most as many threads as the options allow.
  void start() {
    const std::size_t wanted =
        std::min<std::size_t>(std::max<std::uint32_t>(options_.threads, 1), pieces_);
    while (threads_.size() < wanted) {
      try {
        threads_.emplace_back([this, k = static_cast<std::uint32_t>(threads_.size())] { work(k); });
      } catch (const std::system_error& e) {
        if (!threads_.empty()) return;  // the running threads do all the work
        fail(std::make_exception_ptr(
            device_error(std::string("no thread can be started: ") + e.what())));
        std::rethrow_exception(error_);
      }
    }
  }

  void tell(std::unique_lock<std::mutex>& lock) {
    if (!options_.progress || error_) return;
    const std::uint64_t moved = moved_;
    lock.unlock();
    try {
      options_.progress(moved);
    } catch (...) {
      lock.lock();
      fail(std::make_exception_ptr(usage_error("the transfer was stopped")));
      throw;
    }
    lock.lock();
  }

  const batch& batch_of(std::size_t number) const {
    if (number < batches_.size()) return batches_[number];
    throw usage_error("there is no batch " + std::to_string(number) + "; the reader has " +
                      std::to_string(batches_.size()) +
                      (batches_.size() == 1 ? " batch" : " batches") + ", numbered from 0");
  }

  bool stopped() const { return closed_ || error_; }

  void require_open() const {
    if (error_) std::rethrow_exception(error_);
    if (closed_) throw usage_error("the reader is closed");
  }

  // Ends the transfer with an error.
  void fail(std::exception_ptr error) {
    if (!error_) error_ = std::move(error);
    wake_all();
  }

  void wake_all() {
    changed_.notify_all();
    more_.notify_all();
    slot_changed_.notify_all();
  }

  // Returns whether there is a piece at `at` or later. If `at` is past the last piece of its batch,
  // moves `at` to the first piece of the next batch that has pieces.
  bool advance(place& at) const {
    while (at.batch < batches_.size() && at.piece == batches_[at.batch].plan.pieces.size())
      at = {at.batch + 1, 0};
    return at.batch < batches_.size();
  }

  void work(std::uint32_t thread) {
    try {
      if (thread == 0) make_slots();
      std::unique_lock lock(mutex_);
      for (taken one = take(thread, lock); one.of != nullptr; one = take(thread, lock)) {
        const piece& p = one.of->plan.pieces[one.piece];
        const std::uint32_t slot = one.of->chunks[p.chunk].slot;
        lock.unlock();
        move(*one.of, one.piece, slot);
        lock.lock();
        moved_ += p.bytes;
        if (--one.of->chunks[p.chunk].pieces == 0) complete(*one.of, p.chunk, lock);
        if (--one.of->unmoved == 0 || one.of->left == 0) changed_.notify_all();
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      fail(std::current_exception());
    }
  }

  // Makes the slots. One thread makes the slots before it reads, because the first use of a slot
  // takes a long time. Other threads already read into the slots that are made.
  void make_slots() {
    std::unique_lock lock(mutex_);
    const auto wanted = static_cast<std::uint32_t>(std::min(slots_.size(), staged_));
    if (wanted == 0) return;
    const auto& chunks = batches_.front().plan.chunks;
    const auto first =
        std::find_if(chunks.begin(), chunks.end(), [](const chunk& c) { return c.gpu != host; });
    if (first == chunks.end()) return;
    const int gpu = first->gpu;
    lock.unlock();
    for (std::uint32_t slot = 0; slot < wanted; ++slot) (void)gpus_->slot(slot, gpu);
  }

  // Waits for a piece, and for the slot of its chunk. Returns no piece once the transfer has ended.
  taken take(std::uint32_t thread, std::unique_lock<std::mutex>& lock) {
    while (!stopped()) {
      if (!advance(next_)) {
        more_.wait_for(lock, std::chrono::hours(1));  // `wait` would need a newer libstdc++
        continue;
      }
      batch& of = batches_[next_.batch];
      const piece& p = of.plan.pieces[next_.piece];
      const bool staged = of.plan.chunks[p.chunk].gpu != host;
      std::uint32_t& slot = of.chunks[p.chunk].slot;
      if (staged && way_ == direction::read && slot == no_slot) {
        slot = idle_slot(thread);
        if (slot == no_slot) {
          await_a_slot(lock);
          continue;  // another thread may have taken the piece
        }
        slots_[slot].of = &of;
        slots_[slot].chunk = p.chunk;
        slots_[slot].user = thread;
      }
      const taken one{&of, next_.piece++};
      if (staged && way_ == direction::write && !await_fetched(of.chunks[p.chunk], lock)) return {};
      return one;
    }
    return {};
  }

  // An idle slot. Prefers the slot that the thread used last, because the thread's caches may still
  // have that memory.
  std::uint32_t idle_slot(std::uint32_t thread) const {
    std::uint32_t found = no_slot;
    for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) {
      if (slots_[slot].of != nullptr) continue;
      if (slots_[slot].user == thread) return slot;
      if (found == no_slot) found = slot;
    }
    return found;
  }

  // Waits until the state of a slot may have changed. The thread checks a chunk that no other
  // thread checks. Among these chunks it takes the chunk that was sent or fetched first, because
  // that chunk arrives first.
  void await_a_slot(std::unique_lock<std::mutex>& lock) {
    std::uint32_t oldest = no_slot;
    for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) {
      const slot_state& s = slots_[slot];
      if (!s.moving || s.asked) continue;
      if (oldest == no_slot || s.since < slots_[oldest].since) oldest = slot;
    }
    if (oldest == no_slot) {
      slot_changed_.wait_for(lock, wake_interval);
    } else if (!ask(oldest, lock)) {
      slots_[oldest].asked = true;
      lock.unlock();
      std::this_thread::sleep_for(poll_interval);
      lock.lock();
      slots_[oldest].asked = false;
    }
  }

  // Waits until a chunk has been fetched. Returns false if the transfer has ended in the meantime.
  bool await_fetched(const chunk_state& c, std::unique_lock<std::mutex>& lock) {
    while (!stopped() && (c.slot == no_slot || slots_[c.slot].moving)) await_a_slot(lock);
    return !stopped();
  }

  void move(batch& of, std::size_t number, std::uint32_t slot) {
    const piece& p = of.plan.pieces[number];
    if (p.parts == 1) {
      const char* memory = move(of.plan.parts[p.part], p.begin, p.bytes, slot);
      if (options_.checksums) of.checksums[number] = crc32c({memory, p.bytes});
      return;
    }
    for (const part& one : std::span(of.plan.parts).subspan(p.part, p.parts))
      (void)move(one, 0, one.bytes, slot);
  }

  // Moves bytes of a part between the file and memory. Returns the address of the bytes in memory.
  char* move(const part& whole, std::uint64_t first, std::uint64_t bytes, std::uint32_t slot) {
    char* memory = whole.gpu == host ? reinterpret_cast<char*>(whole.address)
                                     : gpus_->slot(slot, whole.gpu) + whole.slot_offset;
    memory += first;
    const file& f = files_[whole.file];
    const std::uint64_t begin = whole.offset + first;
    if (way_ == direction::read) {
      std::uint64_t done = 0;
      if (options_.direct && whole.gpu != host) {
        done = direct_[whole.file].read(begin, memory, bytes);
      }
      read_all(f, begin + done, memory + done, bytes - done);
    } else {
      write_all(f, begin, memory, bytes);
    }
    return memory;
  }

  // Completes a chunk. A thread calls this function once all pieces of the chunk have been read or
  // written.
  void complete(batch& of, std::uint32_t number, std::unique_lock<std::mutex>& lock) {
    const bool staged = of.plan.chunks[number].gpu != host;
    const std::uint32_t slot = of.chunks[number].slot;
    if (staged && way_ == direction::read) {
      enqueue(slot, lock);
      return;
    }
    if (way_ == direction::write) {
      lock.unlock();
      start_write_back(of, number);
      lock.lock();
    }
    --of.left;
    if (!staged) return;
    slots_[slot].of = nullptr;
    fetch_next(slot, lock);
  }

  // Asks the kernel to start writing a chunk to the disk now. Otherwise the kernel starts late. In
  // that case, a caller that flushes the file at the end would wait while nearly the whole file is
  // written.
  void start_write_back(const batch& of, std::uint32_t number) const {
    const chunk& c = of.plan.chunks[number];
    for (const part& p : std::span(of.plan.parts).subspan(c.first_part, c.parts)) {
      (void)sync_file_range(files_[p.file].descriptor, static_cast<off_t>(p.offset),
                            static_cast<off_t>(p.bytes), SYNC_FILE_RANGE_WRITE);
    }
  }

  // Fetches the next chunk of a GPU into an idle slot. (A transfer that writes has one batch.)
  void fetch_next(std::uint32_t slot, std::unique_lock<std::mutex>& lock) {
    batch& of = batches_.front();
    while (fetched_ < of.chunks.size() && of.plan.chunks[fetched_].gpu == host) ++fetched_;
    if (fetched_ == of.chunks.size()) return;
    const std::uint32_t number = fetched_++;
    slots_[slot].of = &of;
    slots_[slot].chunk = number;
    enqueue(slot, lock);
    of.chunks[number].slot = slot;
  }

  // Enqueues the copies of the slot's chunk.
  void enqueue(std::uint32_t slot, std::unique_lock<std::mutex>& lock) {
    slot_state& s = slots_[slot];
    const layout& plan = s.of->plan;
    const chunk& c = plan.chunks[s.chunk];
    const auto parts = std::span(plan.parts).subspan(c.first_part, c.parts);
    lock.unlock();
    try {
      if (way_ == direction::read) {
        gpus_->send(slot, parts);
      } else {
        gpus_->fetch(slot, parts);
      }
    } catch (...) {
      lock.lock();
      throw;
    }
    lock.lock();
    s.moving = true;
    s.since = steady::now();
    slot_changed_.notify_all();  // wakes a thread that checks whether the chunk has arrived
  }

  // Checks every chunk of a batch that no other thread checks.
  void ask_all(const batch& of, std::unique_lock<std::mutex>& lock) {
    for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) {
      const slot_state& s = slots_[slot];
      if (s.moving && !s.asked && s.of == &of) (void)ask(slot, lock);
    }
  }

  // Checks whether the slot's copies have arrived, and returns the result. A failure or a missed
  // deadline ends the transfer.
  bool ask(std::uint32_t slot, std::unique_lock<std::mutex>& lock) {
    slot_state& s = slots_[slot];
    s.asked = true;
    bool done = false;
    std::exception_ptr error;
    lock.unlock();
    try {
      done = gpus_->done(slot);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    s.asked = false;
    if (done) arrived(s);
    const std::chrono::duration<double> waited = steady::now() - s.since;
    if (!done && !error && waited.count() > options_.deadline_s) error = late();
    if (!error) return done;
    fail(error);
    std::rethrow_exception(error);
  }

  void arrived(slot_state& s) {
    s.moving = false;
    slot_changed_.notify_all();
    if (way_ == direction::write) return;
    if (--s.of->left == 0) changed_.notify_all();
    s.of = nullptr;
  }

  // The error for a missed deadline. It names the first chunk in flight.
  std::exception_ptr late() const {
    const slot_state* oldest = nullptr;
    for (const slot_state& s : slots_) {
      if (s.moving && (oldest == nullptr || std::tie(s.of->number, s.chunk) <
                                                std::tie(oldest->of->number, oldest->chunk)))
        oldest = &s;
    }
    const chunk& c = oldest->of->plan.chunks[oldest->chunk];
    const part& first = oldest->of->plan.parts[c.first_part];
    std::array<char, 32> deadline{};
    std::snprintf(deadline.data(), deadline.size(), "%g", options_.deadline_s);
    return std::make_exception_ptr(device_error(
        "the bytes from " + std::to_string(first.offset) + " on of " + files_[first.file].name +
        " did not get " + (way_ == direction::read ? "to" : "from") + " GPU " +
        std::to_string(c.gpu) + " in " + deadline.data() +
        " s; the GPU hangs, or something else keeps it busy"));
  }

  // Waits until no slot has a copy in flight, or the slots are abandoned.
  void drain() noexcept {
    std::unique_lock lock(mutex_);
    try {
      for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) {
        while (slots_[slot].moving && (slots_[slot].asked || !ask(slot, lock))) {
          lock.unlock();
          std::this_thread::sleep_for(poll_interval);
          lock.lock();
        }
      }
    } catch (...) {
      gpus_->abandon();
    }
  }

  const direction way_;
  const std::vector<file> files_;
  carrier* const gpus_;
  const transfer_options options_;
  // one object for each file, if the caller asked for direct reads
  std::deque<direct_file> direct_;
  std::vector<std::thread> threads_;

  std::mutex mutex_;  // guards the following members
  std::deque<batch> batches_;
  place next_;                 // next piece to take
  std::uint32_t fetched_ = 0;  // next chunk to fetch
  std::size_t pieces_ = 0;
  std::size_t staged_ = 0;  // number of chunks that go to GPUs
  std::uint64_t moved_ = 0;
  std::vector<slot_state> slots_;
  bool closed_ = false;
  std::exception_ptr error_;
  // Signals that there is a new piece, or that the transfer has ended.
  std::condition_variable more_;
  // Signals that a slot became idle or began to move, or that the transfer has ended.
  std::condition_variable slot_changed_;
  // signals that a batch has been read or has arrived, or that there is an error
  std::condition_variable changed_;
};

reader::reader(std::vector<file> files, carrier* gpus, transfer_options options)
    : mover_(std::make_unique<mover>(mover::direction::read, std::move(files), gpus,
                                     std::move(options))) {}

reader::~reader() { close(); }

std::size_t reader::add(std::vector<segment> segments) { return mover_->add(std::move(segments)); }

std::vector<std::uint32_t> reader::wait(std::size_t batch) { return mover_->wait(batch); }

bool reader::done(std::size_t batch) { return mover_->done(batch); }

std::string reader::direct_problem() const { return mover_->direct_problem(); }

void reader::close() noexcept { mover_->close(); }

std::vector<std::uint32_t> read_segments(const std::vector<file>& files,
                                         std::vector<segment> segments, carrier* gpus,
                                         const transfer_options& options) {
  reader reading(files, gpus, options);
  return reading.wait(reading.add(std::move(segments)));
}

std::vector<std::uint32_t> write_segments(const std::vector<file>& files,
                                          std::vector<segment> segments, carrier* gpus,
                                          const transfer_options& options) {
  reader::mover writing(reader::mover::direction::write, files, gpus, options);
  try {
    auto checksums = writing.wait(writing.add(std::move(segments)));
    writing.close();
    return checksums;
  } catch (...) {
    writing.close();
    throw;
  }
}

}  // namespace interlace::checkpoint
