// Tracks which delivered elements are used. An element is used if it is written in an epoch and its
// receiver reads it in the next epoch.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

namespace interlace::kernel {

class use_tracker {
 public:
  use_tracker(std::uint32_t devices, std::uint64_t elements, std::vector<std::uint64_t> boundaries);

  // Devices may call wrote() and read() at the same time from different threads, as long as only
  // one device writes each element.
  void wrote(std::uint64_t element) {
    const stamps w = written_[element].load(std::memory_order_relaxed);
    if (w.last == epoch_ + 1) return;
    written_[element].store({epoch_ + 1, w.last}, std::memory_order_relaxed);
  }
  // Whether the element's last store is newer than the value in this epoch's front.
  bool stale(std::uint64_t element) const {
    const std::uint32_t front = front_stamp(element);
    return front != 0 && front != epoch_;
  }
  void read(std::uint32_t device, std::uint64_t element) {
    reader& r = readers_[device];
    std::uint64_t& seen = r.seen[element / 64];
    const std::uint64_t bit = std::uint64_t{1} << (element % 64);
    if ((seen & bit) != 0) return;
    seen |= bit;
    // Only elements that were written in the previous epoch, or set before the first epoch, are
    // counted as used.
    if (front_stamp(element) == epoch_) ++r.used_now;
  }
  void end_epoch() {
    std::uint64_t used_now = 0;
    for (reader& r : readers_) used_now += std::exchange(r.used_now, 0);
    if (epoch_ > 0) used_ += used_now;
    used_last_ = used_now;
    ++epoch_;
    forget_reads();
  }

  std::uint32_t epochs() const { return epoch_; }
  // The number of delivered elements, over all exchanges so far, that their receivers read.
  // Elements of the last exchange are read only after the run, if at all. The last exchange is
  // therefore assumed to have as many used elements as the exchange before it.
  std::uint64_t used() const { return epoch_ == 0 ? 0 : used_ + used_last_; }

 private:
  // The alignment lets clang load and store the struct without calls, as other compilers do.
  struct alignas(8) stamps {
    std::uint32_t last = 0;    // epoch + 1 of the last store
    std::uint32_t before = 0;  // epoch + 1 of the last store in an earlier epoch
  };
  struct alignas(64) reader {  // aligned, so that two readers share no cache line
    // One bit for each element. The bit is set if the device has read the element in this epoch, or
    // if the element is the device's own. Kernels read many elements several times. Bits take
    // little memory, so they stay in the host's cache.
    std::vector<std::uint64_t> seen;
    std::uint64_t used_now = 0;
  };
  void forget_reads();

  // Epoch + 1 of the last store in an earlier epoch. Stores of the current epoch go to the back and
  // do not change the result. Such stores may therefore run at the same time as this function.
  std::uint32_t front_stamp(std::uint64_t element) const {
    const stamps w = written_[element].load(std::memory_order_relaxed);
    return w.last == epoch_ + 1 ? w.before : w.last;
  }

  std::vector<std::uint64_t> boundaries_;
  std::vector<std::atomic<stamps>> written_;  // [element]
  std::vector<reader> readers_;               // [device]
  std::uint32_t epoch_ = 0;
  std::uint64_t used_last_ = 0;
  std::uint64_t used_ = 0;
};

}  // namespace interlace::kernel
