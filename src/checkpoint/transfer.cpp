#include "checkpoint/transfer.hpp"

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
#include <utility>

#include "checkpoint/crc32c.hpp"
#include "interlace/base/errors.hpp"

namespace interlace::checkpoint {

namespace {

using steady = std::chrono::steady_clock;

constexpr std::chrono::microseconds poll_interval{20};
constexpr std::chrono::milliseconds wake_interval{20};

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

}  // namespace

// Threads take pieces in order. A chunk of a GPU uses slot `turn` modulo the number of slots.
//   reading: threads read all its pieces into the slot, then the chunk is sent. A thread that needs
//            the slot for a later chunk waits until that is complete.
//   writing: the chunk is fetched. A thread that takes one of its pieces waits until that is
//            complete. When all pieces are written, the slot's next chunk is fetched.
// The first of the chunks that have pieces left never waits for a later chunk.
class reader::mover {
 public:
  enum class direction { read, write };

  mover(direction way, std::vector<file> files, carrier* gpus, transfer_options options)
      : way_(way), files_(std::move(files)), gpus_(gpus), options_(std::move(options)) {
    if (gpus_ == nullptr) return;
    for (std::uint32_t s = 0; s < gpus_->slots(); ++s) slots_.emplace_back().turn = s;
  }

  std::size_t add(std::vector<segment> segments) {
    std::unique_lock lock(mutex_);
    require_open();
    lock.unlock();
    batch made;
    made.tensors = check(segments);
    cut how{.chunk_bytes = options_.chunk_bytes,
            .piece_bytes = options_.piece_bytes,
            .by_tensor = options_.checksums};
    if (gpus_ != nullptr) how.chunk_bytes = std::min(how.chunk_bytes, gpus_->slot_bytes());
    made.plan = lay_out(std::move(segments), how);
    made.checksums.resize(options_.checksums ? made.plan.pieces.size() : 0);
    made.unread = made.plan.pieces.size();
    made.left = made.plan.chunks.size();
    made.pieces_left.reserve(made.plan.chunks.size());
    for (const chunk& c : made.plan.chunks) made.pieces_left.push_back(c.pieces);
    if (way_ == direction::read) {
      for (const part& p : made.plan.parts) {
        if (p.gpu == host) want_large_pages(p);
      }
    }
    lock.lock();
    const std::size_t number = batches_.size();
    const auto first_turn = static_cast<std::uint32_t>(staged_.size());
    for (std::uint32_t c = 0; c < made.plan.chunks.size(); ++c) {
      if (made.plan.chunks[c].gpu != host) staged_.push_back({number, c});
    }
    made.first_turn = first_turn;
    pieces_ += made.plan.pieces.size();
    batches_.push_back(std::move(made));
    if (way_ == direction::write) {
      const auto turns = static_cast<std::uint32_t>(std::min(staged_.size(), slots_.size()));
      lock.unlock();
      for (std::uint32_t turn = first_turn; turn < turns; ++turn) enqueue(turn);
      lock.lock();
    }
    more_.notify_all();
    start();
    return number;
  }

  std::vector<std::uint32_t> wait(std::size_t number) {
    std::unique_lock lock(mutex_);
    const batch& of = batch_of(number);
    auto told = steady::now();
    while (of.left != 0) {
      require_open();
      // Threads that need slots also see what has arrived; near the end there are none.
      const bool near_end = of.unread == 0;
      if (near_end) poll_all(number, lock);
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
    if (of.left != 0) poll_all(number, lock);
    return of.left == 0;
  }

  void close() noexcept {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
      more_.notify_all();
      for (slot_state& s : slots_) s.changed.notify_all();
    }
    for (std::thread& t : threads_) t.join();
    threads_.clear();
    drain();
  }

 private:
  struct batch {
    layout plan;
    std::size_t tensors = 0;
    std::uint32_t first_turn = 0;            // how many chunks of GPUs earlier batches have
    std::size_t unread = 0;                  // pieces that have not been read or written
    std::size_t left = 0;                    // chunks that are not complete
    std::vector<std::uint32_t> pieces_left;  // of each chunk
    std::vector<std::uint32_t> checksums;    // of each piece
  };
  struct staged {
    std::size_t batch = 0;
    std::uint32_t chunk = 0;
  };
  struct slot_state {
    std::uint32_t turn = 0;
    bool moving = false;  // the chunk is on its way from or to a GPU
    bool polled = false;  // one thread polls and notifies the other threads
    steady::time_point since;
    std::condition_variable changed;
  };
  struct taken {
    batch* of = nullptr;
    std::size_t number = 0;  // of the piece
  };

  // The number of tensors of the segments.
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

  const chunk& chunk_of(std::uint32_t turn) const {
    const staged& s = staged_[turn];
    return batches_[s.batch].plan.chunks[s.chunk];
  }

  // As many threads as there are pieces, at most as many as asked for. The caller holds the mutex.
  void start() {
    const std::size_t wanted =
        std::min<std::size_t>(std::max<std::uint32_t>(options_.threads, 1), pieces_);
    while (threads_.size() < wanted) {
      try {
        threads_.emplace_back([this] { work(); });
      } catch (const std::system_error& e) {
        if (!threads_.empty()) return;  // the threads that run do all the work
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
    throw usage_error("there is no batch " + std::to_string(number) + "; there are " +
                      std::to_string(batches_.size()));
  }

  bool stopped() const { return closed_ || error_; }

  void require_open() const {
    if (error_) std::rethrow_exception(error_);
    if (closed_) throw usage_error("the reader is closed");
  }

  // Waits for a piece. Returns none once the transfer has ended.
  taken take(std::unique_lock<std::mutex>& lock) {
    for (;;) {
      if (stopped()) return {};
      while (at_batch_ < batches_.size() && at_piece_ == batches_[at_batch_].plan.pieces.size()) {
        ++at_batch_;
        at_piece_ = 0;
      }
      if (at_batch_ < batches_.size()) return {&batches_[at_batch_], at_piece_++};
      more_.wait(lock);
    }
  }

  void work() {
    try {
      std::unique_lock lock(mutex_);
      for (;;) {
        const taken one = take(lock);
        if (one.of == nullptr) return;
        const piece& p = one.of->plan.pieces[one.number];
        const chunk& c = one.of->plan.chunks[p.chunk];
        const std::uint32_t turn = one.of->first_turn + c.turn;
        if (c.gpu != host && !await(turn, lock)) return;
        lock.unlock();
        move(*one.of, one.number, turn);
        lock.lock();
        moved_ += p.bytes;
        const bool whole = --one.of->pieces_left[p.chunk] == 0;
        if (whole) complete(*one.of, c, turn, lock);
        if (--one.of->unread == 0 || one.of->left == 0) changed_.notify_all();
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      fail(std::current_exception());
    }
  }

  void move(batch& of, std::size_t number, std::uint32_t turn) {
    const piece& p = of.plan.pieces[number];
    const chunk& c = of.plan.chunks[p.chunk];
    const part& whole = of.plan.parts[p.part];
    char* memory = c.gpu == host ? reinterpret_cast<char*>(whole.address)
                                 : gpus_->slot(slot_of(turn), c.gpu) + whole.slot_offset;
    memory += p.begin;
    const file& f = files_[whole.file];
    if (way_ == direction::read) {
      read_all(f, whole.offset + p.begin, memory, p.bytes);
    } else {
      write_all(f, whole.offset + p.begin, memory, p.bytes);
    }
    if (options_.checksums) of.checksums[number] = crc32c({memory, p.bytes});
  }

  // All pieces of a chunk have been read or written.
  void complete(batch& of, const chunk& c, std::uint32_t turn, std::unique_lock<std::mutex>& lock) {
    if (c.gpu == host || way_ == direction::write) --of.left;
    if (c.gpu == host) return;
    const std::size_t next = way_ == direction::read ? turn : turn + slots_.size();
    if (next >= staged_.size()) return;
    lock.unlock();
    enqueue(static_cast<std::uint32_t>(next));
    lock.lock();
  }

  std::uint32_t slot_of(std::uint32_t turn) const {
    return turn % static_cast<std::uint32_t>(slots_.size());
  }

  void enqueue(std::uint32_t turn) {
    const std::uint32_t slot = slot_of(turn);
    std::unique_lock lock(mutex_);
    const layout& plan = batches_[staged_[turn].batch].plan;
    const chunk& c = plan.chunks[staged_[turn].chunk];
    const auto parts = std::span(plan.parts).subspan(c.first_part, c.parts);
    lock.unlock();
    if (way_ == direction::read) {
      gpus_->send(slot, parts);
    } else {
      gpus_->fetch(slot, parts);
    }
    lock.lock();
    slots_[slot].turn = turn;
    slots_[slot].moving = true;
    slots_[slot].since = steady::now();
    slots_[slot].changed.notify_one();  // wakes the thread that will poll it
  }

  // Waits until the slot belongs to the chunk: for reading it is empty, for writing it holds the
  // fetched data. Returns false if the transfer has ended in the meantime.
  bool await(std::uint32_t turn, std::unique_lock<std::mutex>& lock) {
    const std::uint32_t number = slot_of(turn);
    slot_state& s = slots_[number];
    while (s.moving || s.turn != turn) {
      if (stopped()) return false;
      if (s.moving && !s.polled) {
        poll(number, lock);
      } else {
        s.changed.wait_for(lock, wake_interval);
      }
    }
    return !stopped();
  }

  // Polls until the slot's copies have arrived, or the transfer has ended.
  void poll(std::uint32_t number, std::unique_lock<std::mutex>& lock) {
    while (slots_[number].moving && !stopped() && !ask(number, lock)) {
      slots_[number].polled = true;
      lock.unlock();
      std::this_thread::sleep_for(poll_interval);
      lock.lock();
      slots_[number].polled = false;
    }
    slots_[number].changed.notify_all();
  }

  // Asks for every slot that nobody polls and that has a chunk of the batch.
  void poll_all(std::size_t of, std::unique_lock<std::mutex>& lock) {
    for (std::uint32_t number = 0; number < slots_.size(); ++number) {
      const slot_state& s = slots_[number];
      if (s.moving && !s.polled && staged_[s.turn].batch == of) (void)ask(number, lock);
    }
  }

  // Asks once. Returns whether the slot's copies have arrived. A failure, or a missed deadline,
  // ends the transfer.
  bool ask(std::uint32_t number, std::unique_lock<std::mutex>& lock) {
    slot_state& s = slots_[number];
    s.polled = true;
    bool done = false;
    std::exception_ptr error;
    lock.unlock();
    try {
      done = gpus_->done(number);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    s.polled = false;
    if (done) arrived(s);
    const std::chrono::duration<double> waited = steady::now() - s.since;
    if (!done && !error && waited.count() > options_.deadline_s) error = late(s.turn);
    if (!error) return done;
    fail(error);
    std::rethrow_exception(error);
  }

  void arrived(slot_state& s) {
    s.moving = false;
    if (way_ == direction::write) return;
    batch& of = batches_[staged_[s.turn].batch];
    if (--of.left == 0) changed_.notify_all();
    s.turn += static_cast<std::uint32_t>(slots_.size());
    s.changed.notify_all();
  }

  std::exception_ptr late(std::uint32_t turn) const {
    const chunk& c = chunk_of(turn);
    const part& first = batches_[staged_[turn].batch].plan.parts[c.first_part];
    std::array<char, 32> deadline{};
    std::snprintf(deadline.data(), deadline.size(), "%g", options_.deadline_s);
    return std::make_exception_ptr(device_error(
        "the bytes from " + std::to_string(first.offset) + " on of " + files_[first.file].name +
        " did not get " + (way_ == direction::read ? "to" : "from") + " GPU " +
        std::to_string(c.gpu) + " in " + deadline.data() +
        " s; the GPU hangs, or something else keeps it busy"));
  }

  // Ends the transfer. The caller holds the mutex.
  void fail(std::exception_ptr error) {
    if (!error_) error_ = std::move(error);
    changed_.notify_all();
    more_.notify_all();
    for (slot_state& s : slots_) s.changed.notify_all();
  }

  // Waits until nothing is in flight in a slot, or the slots are abandoned.
  void drain() noexcept {
    std::unique_lock lock(mutex_);
    try {
      for (std::uint32_t number = 0; number < slots_.size(); ++number) {
        while (slots_[number].moving && !ask(number, lock)) {
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
  std::vector<std::thread> threads_;

  std::mutex mutex_;  // guards what follows
  std::deque<batch> batches_;
  std::deque<staged> staged_;  // chunks of GPUs, by turn
  std::size_t at_batch_ = 0;   // the next piece
  std::size_t at_piece_ = 0;
  std::size_t pieces_ = 0;
  std::uint64_t moved_ = 0;
  std::deque<slot_state> slots_;
  bool closed_ = false;
  std::exception_ptr error_;
  std::condition_variable more_;     // there is a piece, or the end
  std::condition_variable changed_;  // a batch has been read or has arrived, or an error
};

reader::reader(std::vector<file> files, carrier* gpus, transfer_options options)
    : mover_(std::make_unique<mover>(mover::direction::read, std::move(files), gpus,
                                     std::move(options))) {}

reader::~reader() { close(); }

std::size_t reader::add(std::vector<segment> segments) { return mover_->add(std::move(segments)); }

std::vector<std::uint32_t> reader::wait(std::size_t batch) { return mover_->wait(batch); }

bool reader::done(std::size_t batch) { return mover_->done(batch); }

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
