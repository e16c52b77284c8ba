// The pending events of one device, ordered by time, then by source, then by insertion. The source
// of an event is the device that sent it, or 0 for the device's own events. The queue keeps events
// in buckets, one for each interval of time. A push appends a near event to the event's bucket, and
// the queue sorts only the bucket that it is reading. Buckets take memory in small groups of places
// from one common store. The store hands out the most recently returned group first, so pushes
// write to few places in memory, no matter how many buckets there are.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

#include "interlace/sim/engine/picoseconds.hpp"
#include "sim/engine/event_kind.hpp"

namespace interlace::sim {

struct event {
  picoseconds time = 0;
  event_kind kind = event_kind::message_at_link;
  std::uint8_t source = 0;
  std::uint16_t device = 0;
  std::uint32_t a = 0;
  std::uint64_t b = 0;
};

class event_queue {
 public:
  event_queue() : buckets_(bucket_count) {}
  event_queue(const event_queue&) = delete;
  event_queue& operator=(const event_queue&) = delete;
  ~event_queue() = default;

  static constexpr picoseconds never = ~picoseconds{0};

  picoseconds now() const { return *clock_; }
  // Sets a clock that several queues share. Queues whose events are handled in one common order
  // need the same clock. With null, the queue has a clock of its own.
  void use_clock(picoseconds* clock) {
    const picoseconds time = now();
    clock_ = clock != nullptr ? clock : &own_clock_;
    *clock_ = std::max(*clock_, time);
  }
  // From now on, events that are pushed here go to queue `to`. Queue `to` therefore holds the
  // events of several devices, ordered by time and then by insertion. With null, events stay in
  // this queue. This queue must be empty.
  void forward(event_queue* to) { target_ = to != nullptr ? to : this; }
  bool goes_with(const event_queue& other) const { return target_ == other.target_; }
  // Moves the clock to `time`. No event before that time may be pending.
  void pass_to(picoseconds time) { *clock_ = time; }
  // The time of the next event, or `never` if the queue is empty.
  picoseconds next() const { return next_; }
  bool empty() const { return size_ == 0; }
  std::uint64_t processed() const { return processed_; }

  // `time` must not be before now().
  void push(picoseconds time, event_kind kind, std::uint16_t device, std::uint32_t a,
            std::uint64_t b, std::uint8_t source = 0) {
    target_->enter({time, kind, source, device, a, b});
  }

  // Handles events. `ahead` sees all events of a bucket before the first of these events is
  // handled. The data of the events is scattered in memory, so `ahead` can prefetch all of it
  // together.
  template <class Ahead>
  event pop(Ahead&& ahead) {
    if (order_.empty()) {
      advance();
      ahead(open_);
    }
    const event e = open_[order_.back() & index_mask];
    order_.pop_back();
    --size_;
    ++processed_;
    next_ = order_.empty() ? next_unopened() : open_[order_.back() & index_mask].time;
    *clock_ = e.time;
    return e;
  }

 private:
  static constexpr std::uint32_t bucket_shift = 9;  // 0.5 ns
  static constexpr std::uint64_t bucket_ps = std::uint64_t{1} << bucket_shift;
  static constexpr std::uint64_t bucket_count = 16384;
  // With at least this many events, counting is faster than sorting.
  static constexpr std::size_t counted_from = 64;
  static constexpr std::uint32_t index_bits = 40;
  static constexpr std::uint32_t source_bits = 8;
  static constexpr std::uint64_t index_mask = (std::uint64_t{1} << index_bits) - 1;

  static constexpr std::uint32_t group_events = 5;
  static constexpr std::uint32_t no_group = ~std::uint32_t{0};
  // A group has the size of two cache lines.
  struct alignas(64) group {
    std::array<event, group_events> events;
    std::uint32_t count = 0;
    std::uint32_t next = no_group;
  };
  struct bucket {
    std::uint32_t first = no_group;
    std::uint32_t last = no_group;
  };

  struct far_event {
    event what;
    std::uint64_t sequence = 0;
  };
  struct later {
    bool operator()(const far_event& x, const far_event& y) const {
      return x.what.time != y.what.time ? x.what.time > y.what.time : x.sequence > y.sequence;
    }
  };

  // The key by which the events of one bucket are ordered. A bucket holds its events in insertion
  // order, because far events are moved into the bucket as soon as the bucket becomes near, before
  // any other event is added.
  static std::uint64_t key_of(const event& e, std::size_t index) {
    return ((e.time % bucket_ps) << source_bits | e.source) << index_bits | index;
  }

  void enter(const event& e) {
    ++size_;
    next_ = std::min(next_, e.time);
    const std::uint64_t slot = e.time >> bucket_shift;
    if (slot <= current_) {
      const std::uint64_t key = key_of(e, open_.size());
      open_.push_back(e);
      order_.insert(std::lower_bound(order_.begin(), order_.end(), key, std::greater<>()), key);
    } else if (slot < current_ + bucket_count) {
      put(slot, e);
    } else {
      far_.push({e, sequence_++});
    }
  }

  void put(std::uint64_t slot, const event& e) {
    const std::uint64_t k = slot % bucket_count;
    bucket& b = buckets_[k];
    if (b.last == no_group) {
      b.first = b.last = take_group();
      occupied_[k / 64] |= std::uint64_t{1} << (k % 64);
    } else if (groups_[b.last].count == group_events) {
      const std::uint32_t added = take_group();
      groups_[b.last].next = added;
      b.last = added;
    }
    group& g = groups_[b.last];
    g.events[g.count++] = e;
  }

  std::uint32_t take_group() {
    if (free_group_ == no_group) {
      groups_.emplace_back();
      return static_cast<std::uint32_t>(groups_.size() - 1);
    }
    const std::uint32_t taken = free_group_;
    group& g = groups_[taken];
    free_group_ = g.next;
    g.next = no_group;
    g.count = 0;
    return taken;
  }

  // Moves the events of a bucket to open_, in insertion order.
  void open(bucket& b) {
    open_.clear();
    for (std::uint32_t at = b.first; at != no_group;) {
      group& g = groups_[at];
      open_.insert(open_.end(), g.events.begin(), g.events.begin() + g.count);
      const std::uint32_t next = g.next;
      g.next = free_group_;
      free_group_ = at;
      at = next;
    }
    b = {};
  }

  // The slot of the next bucket with events, after the current bucket. If no bucket has events,
  // this is the slot of the first far event.
  std::uint64_t next_slot() const {
    if (size_ == far_.size()) return far_.top().what.time >> bucket_shift;
    const std::uint64_t begin = (current_ + 1) % bucket_count;
    std::uint64_t word = begin / 64;
    std::uint64_t bits = occupied_[word] & ~std::uint64_t{0} << (begin % 64);
    while (bits == 0) {
      word = (word + 1) % occupied_.size();
      bits = occupied_[word];
    }
    const std::uint64_t k = word * 64 + static_cast<std::uint64_t>(__builtin_ctzll(bits));
    return current_ + 1 + (k + bucket_count - begin) % bucket_count;
  }

  picoseconds next_unopened() const {
    if (size_ == far_.size()) return far_.empty() ? never : far_.top().what.time;
    picoseconds first = never;
    std::uint32_t at = buckets_[next_slot() % bucket_count].first;
    for (; at != no_group; at = groups_[at].next) {
      const group& g = groups_[at];
      for (std::uint32_t k = 0; k < g.count; ++k) first = std::min(first, g.events[k].time);
    }
    return first;
  }

  // Opens the next bucket that has events. There must be such a bucket.
  void advance() {
    current_ = next_slot();
    while (!far_.empty() && (far_.top().what.time >> bucket_shift) < current_ + bucket_count) {
      const event& e = far_.top().what;
      put(e.time >> bucket_shift, e);
      far_.pop();
    }
    const std::uint64_t k = current_ % bucket_count;
    occupied_[k / 64] &= ~(std::uint64_t{1} << (k % 64));
    open(buckets_[k]);
    order_open();
  }

  // Lists the events of the open bucket, the latest first.
  void order_open() {
    if (open_.size() < counted_from) {
      // The bucket is mostly in order already. The list starts with the latest event, so this loop
      // goes through the bucket from its end. Each event therefore moves past few others.
      order_.resize(open_.size());
      std::uint64_t* const keys = order_.data();
      std::size_t listed = 0;
      for (std::size_t i = open_.size(); i-- > 0;) {
        const std::uint64_t key = key_of(open_[i], i);
        std::size_t at = listed++;
        for (; at > 0 && keys[at - 1] < key; --at) keys[at] = keys[at - 1];
        keys[at] = key;
      }
      return;
    }
    // A bucket has only bucket_ps different times. The number of events at each time therefore
    // gives the places of the events in the list.
    std::array<std::uint32_t, bucket_ps + 1> place{};
    std::uint32_t sources = 0;
    for (const event& e : open_) {
      ++place[bucket_ps - 1 - e.time % bucket_ps + 1];
      sources |= e.source;
    }
    for (std::size_t t = 1; t < bucket_ps; ++t) place[t] += place[t - 1];
    order_.resize(open_.size());
    for (std::size_t i = open_.size(); i-- > 0;) {
      order_[place[bucket_ps - 1 - open_[i].time % bucket_ps]++] = key_of(open_[i], i);
    }
    if (sources == 0) return;
    // The list is now ordered by time. Only events of the same time can still be in the wrong
    // order, and they are adjacent.
    constexpr std::uint32_t time_shift = index_bits + source_bits;
    for (std::size_t begin = 0; begin < order_.size();) {
      std::size_t end = begin + 1;
      while (end < order_.size() && order_[end] >> time_shift == order_[begin] >> time_shift) ++end;
      const auto from = order_.begin() + static_cast<std::ptrdiff_t>(begin);
      const auto to = order_.begin() + static_cast<std::ptrdiff_t>(end);
      if (end - begin > 1) std::sort(from, to, std::greater<>());
      begin = end;
    }
  }

  std::vector<bucket> buckets_;
  std::vector<group> groups_;
  std::uint32_t free_group_ = no_group;  // head of the list of free groups, linked by group::next
  // One bit for each bucket, set if the bucket has events.
  std::array<std::uint64_t, bucket_count / 64> occupied_{};
  std::vector<event> open_;  // the events of the bucket that is being read, in insertion order
  std::vector<std::uint64_t> order_;  // the bucket's unhandled events, the latest first
  std::priority_queue<far_event, std::vector<far_event>, later> far_;
  std::uint64_t current_ = 0;
  std::uint64_t sequence_ = 0;  // the insertion number of the next far event
  std::uint64_t size_ = 0;
  std::uint64_t processed_ = 0;
  picoseconds next_ = never;
  picoseconds own_clock_ = 0;
  picoseconds* clock_ = &own_clock_;
  event_queue* target_ = this;
};

// A server that does one piece of work after another.
class resource {
 public:
  // Reserves the server for `duration`, at `time` or later. Returns the start.
  picoseconds reserve(picoseconds time, picoseconds duration) {
    const picoseconds start = std::max(time, free_);
    free_ = start + duration;
    busy_ += duration;
    return start;
  }
  picoseconds free_at() const { return free_; }
  picoseconds busy() const { return busy_; }  // the time of all work so far
  // Blocks the server: nothing starts before `time`.
  void hold_until(picoseconds time) { free_ = std::max(free_, time); }

 private:
  picoseconds free_ = 0;
  picoseconds busy_ = 0;
};

}  // namespace interlace::sim
