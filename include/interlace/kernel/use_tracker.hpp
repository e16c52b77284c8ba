// Tracks which delivered elements are used. An element is used if it is written in an epoch and its
// receiver reads it in the next epoch.
#pragma once

#include <cstdint>
#include <vector>

namespace interlace::kernel {

class use_tracker {
 public:
  use_tracker(std::uint32_t devices, std::uint64_t elements, std::vector<std::uint64_t> boundaries);

  void wrote(std::uint64_t element) {
    stamps& w = written_[element];
    if (w.last == epoch_ + 1) {
      ++overwritten_;
    } else {
      w = {epoch_ + 1, w.last};
    }
  }
  // Whether this epoch's front holds an older value of the element than its last store wrote.
  bool stale(std::uint64_t element) const {
    const std::uint32_t front = front_stamp(element);
    return front != 0 && front != epoch_;
  }
  void read(std::uint32_t device, std::uint64_t element) {
    // the device's own element
    if (element >= boundaries_[device] && element < boundaries_[device + 1]) return;
    std::uint32_t& stamp = read_[device][element];
    if (stamp == epoch_ + 1) return;
    stamp = epoch_ + 1;
    // The element was written in the previous epoch, or set before the first one.
    if (front_stamp(element) == epoch_) ++used_now_;
  }
  void end_epoch() {
    if (epoch_ > 0) used_ += used_now_;
    used_last_ = used_now_;
    used_now_ = 0;
    ++epoch_;
  }

  std::uint32_t epochs() const { return epoch_; }
  // The number of delivered elements, over all exchanges so far, that their receivers read.
  // Elements of the last exchange could only be read after the run, so the same number counts for
  // it as for the exchange before it.
  std::uint64_t used() const { return epoch_ == 0 ? 0 : used_ + used_last_; }
  std::uint64_t overwritten() const { return overwritten_; }

 private:
  struct stamps {
    std::uint32_t last = 0;    // epoch + 1 of the last store
    std::uint32_t before = 0;  // epoch + 1 of the last store in an earlier epoch
  };

  // Epoch + 1 of the last store in an earlier epoch. Stores of this epoch are in the back.
  std::uint32_t front_stamp(std::uint64_t element) const {
    const stamps& w = written_[element];
    return w.last == epoch_ + 1 ? w.before : w.last;
  }

  std::vector<std::uint64_t> boundaries_;
  std::vector<stamps> written_;                   // [element]
  std::vector<std::vector<std::uint32_t>> read_;  // [device][element]: epoch + 1 of the last load
  std::uint32_t epoch_ = 0;
  std::uint64_t used_now_ = 0;
  std::uint64_t used_last_ = 0;
  std::uint64_t used_ = 0;
  std::uint64_t overwritten_ = 0;
};

}  // namespace interlace::kernel
