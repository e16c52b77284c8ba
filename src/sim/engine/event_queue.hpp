// Pending events in order of (time, insertion), in buckets of time: near events cost a push to the
// back of a bucket, and order is settled only inside the bucket that is being read.
#pragma once

#include <algorithm>
#include <cstdint>
#include <queue>
#include <vector>

namespace interlace::sim {

using picoseconds = std::uint64_t;

struct event {
  picoseconds time = 0;
  std::uint64_t sequence = 0;
  std::uint16_t kind = 0;
  std::uint16_t device = 0;
  std::uint32_t a = 0;
  std::uint64_t b = 0;
};

class event_queue {
 public:
  event_queue() : buckets_(bucket_count) {}

  picoseconds now() const { return now_; }
  bool empty() const { return size_ == 0; }
  std::uint64_t processed() const { return processed_; }

  // `time` not before now().
  void push(picoseconds time, std::uint16_t kind, std::uint16_t device, std::uint32_t a,
            std::uint64_t b) {
    const event e{time, sequence_++, kind, device, a, b};
    ++size_;
    const std::uint64_t slot = time >> bucket_shift;
    if (slot <= current_) {
      open_.insert(std::upper_bound(open_.begin(), open_.end(), e, later{}), e);
    } else if (slot < current_ + bucket_count) {
      buckets_[slot % bucket_count].push_back(e);
    } else {
      far_.push(e);
    }
  }

  // `ahead` sees the events of a bucket before the first of them is handled: what they will touch
  // lies far apart in memory and can be fetched together.
  template <class Ahead>
  event pop(Ahead&& ahead) {
    if (open_.empty()) {
      while (open_.empty()) advance();
      ahead(open_);
    }
    const event e = open_.back();
    open_.pop_back();
    --size_;
    ++processed_;
    now_ = e.time;
    return e;
  }

 private:
  static constexpr std::uint32_t bucket_shift = 9;  // 0.5 ns
  static constexpr std::uint64_t bucket_count = 16384;

  struct later {
    bool operator()(const event& x, const event& y) const {
      return x.time != y.time ? x.time > y.time : x.sequence > y.sequence;
    }
  };

  void advance() {
    ++current_;
    if (size_ == far_.size()) current_ = far_.top().time >> bucket_shift;
    while (!far_.empty() && (far_.top().time >> bucket_shift) < current_ + bucket_count) {
      const event e = far_.top();
      far_.pop();
      const std::uint64_t slot = e.time >> bucket_shift;
      (slot <= current_ ? open_ : buckets_[slot % bucket_count]).push_back(e);
    }
    auto& bucket = buckets_[current_ % bucket_count];
    open_.insert(open_.end(), bucket.begin(), bucket.end());
    bucket.clear();
    std::sort(open_.begin(), open_.end(), later{});
  }

  std::vector<std::vector<event>> buckets_;
  std::vector<event> open_;  // the bucket being read, latest first
  std::priority_queue<event, std::vector<event>, later> far_;
  std::uint64_t current_ = 0;
  std::uint64_t sequence_ = 0;
  std::uint64_t size_ = 0;
  std::uint64_t processed_ = 0;
  picoseconds now_ = 0;
};

// A server that takes one piece of work after another.
class resource {
 public:
  // Reserves `duration` at or after `time`; returns the start.
  picoseconds reserve(picoseconds time, picoseconds duration) {
    const picoseconds start = std::max(time, free_);
    free_ = start + duration;
    busy_ += duration;
    return start;
  }
  picoseconds free_at() const { return free_; }
  picoseconds busy() const { return busy_; }  // of all work so far
  // Holds the server back: nothing starts before `time`.
  void hold_until(picoseconds time) { free_ = std::max(free_, time); }

 private:
  picoseconds free_ = 0;
  picoseconds busy_ = 0;
};

}  // namespace interlace::sim
