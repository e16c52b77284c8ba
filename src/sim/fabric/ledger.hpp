// Counts every message from sending to delivery, and the bytes that each direction of a link
// carries. A run reports these counts. check() uses them to prove that no message was lost or
// duplicated.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sim/engine/event_queue.hpp"
#include "sim/fabric/message.hpp"

namespace interlace::sim {

class ledger {
 public:
  // `steps[from * devices + to]` lists the link directions of the route between two devices. There
  // are `directions` directions in all.
  ledger(std::uint32_t devices, std::vector<std::vector<std::uint32_t>> steps,
         std::size_t directions);

  struct totals {
    std::uint64_t messages = 0;
    std::uint64_t payload = 0;
    std::uint64_t wire = 0;
    friend bool operator==(const totals&, const totals&) = default;
  };
  struct pair {
    totals sent;
    totals delivered;
    std::uint64_t packets = 0;
    std::uint64_t latency = 0;  // sum of latencies, in picoseconds
    picoseconds longest = 0;
  };

  // Threads may call these functions at the same time if the calls differ: sent() in the sender,
  // delivered() in the receiver, and carried() in the direction.
  void sent(const message& m) {
    departure& d = departures_[m.from * devices_ + m.to];
    add(d.sent, m);
    d.packets += m.packets;
  }
  void delivered(const message& m, picoseconds now) {
    arrival& a = arrivals_[m.to * devices_ + m.from];
    add(a.delivered, m);
    const picoseconds latency = now - m.sent;
    a.latency += latency;
    if (latency > a.longest) a.longest = latency;
  }
  // Notes that a direction passes on `wire` bytes, which keep the direction busy for `duration`
  // from `start` on.
  void carried(std::uint32_t direction, std::uint32_t wire, picoseconds start,
               picoseconds duration) {
    way& w = ways_[direction];
    w.wire += wire;
    if (duration == 0) return;
    const picoseconds last = start + duration - 1;
    while (last >> w.shift >= bins) widen(w);
    const std::uint64_t first_bin = start >> w.shift;
    if (first_bin == last >> w.shift) {
      w.busy[first_bin] += duration;
    } else {
      spread(w, start, last + 1);
    }
  }

  // Throws model_error unless two conditions hold. First, for each pair of devices, all messages
  // with their payload and wire bytes were delivered as often as they were sent. Second, each
  // direction carried exactly the wire bytes of the messages whose routes use it. `name` returns a
  // direction's name for the error.
  void check(const std::function<std::string(std::size_t)>& name) const;

  pair between(std::uint32_t from, std::uint32_t to) const {
    const departure& d = departures_[from * devices_ + to];
    const arrival& a = arrivals_[to * devices_ + from];
    return {d.sent, a.delivered, d.packets, a.latency, a.longest};
  }
  totals all() const;
  std::uint64_t wire(std::size_t direction) const { return ways_[direction].wire; }
  picoseconds busy(std::size_t direction) const;
  // The fraction of each bin up to `end` in which the direction was busy. The last bin ends at
  // `end`.
  std::vector<float> busy_by_bin(std::size_t direction, picoseconds end) const;
  picoseconds bin_width() const { return picoseconds{1} << shift(); }

  static constexpr std::size_t bins = 128;

 private:
  struct departure {
    totals sent;
    std::uint64_t packets = 0;
  };
  struct arrival {
    totals delivered;
    std::uint64_t latency = 0;
    picoseconds longest = 0;
  };
  struct alignas(64) way {  // the counts of a direction; no two directions share a cache line
    std::uint64_t wire = 0;
    std::uint32_t shift = 16;  // log2 of a bin's width in picoseconds; at first a bin has 66 ns
    std::array<std::uint64_t, bins> busy{};  // busy picoseconds of each bin
  };

  static void add(totals& t, const message& m) {
    ++t.messages;
    t.payload += m.payload;
    t.wire += m.wire;
  }
  // Doubles the width of each bin by merging neighbouring bins.
  static void widen(way& w);
  static void spread(way& w, picoseconds start, picoseconds end);
  // The shift of the direction with the widest bins. The bins of all directions are shown with this
  // width.
  std::uint32_t shift() const;

  std::uint32_t devices_;
  std::vector<std::vector<std::uint32_t>> steps_;
  std::vector<departure> departures_;  // index: from * devices + to
  std::vector<arrival> arrivals_;      // index: to * devices + from
  std::vector<way> ways_;
};

}  // namespace interlace::sim
