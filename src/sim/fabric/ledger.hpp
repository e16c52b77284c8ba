// Counts every message from sending to delivery, and the bytes that each direction of a link
// carries. A run reports these counts. check() uses them to prove that no message was lost or
// duplicated.
#pragma once

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
    std::uint64_t latency = 0;  // sum, picoseconds
    picoseconds longest = 0;
  };

  void sent(const message& m) {
    pair& p = pairs_[m.from * devices_ + m.to];
    add(p.sent, m);
    p.packets += m.packets;
  }
  void delivered(const message& m, picoseconds now) {
    pair& p = pairs_[m.from * devices_ + m.to];
    add(p.delivered, m);
    const picoseconds latency = now - m.sent;
    p.latency += latency;
    if (latency > p.longest) p.longest = latency;
  }
  // Notes that the direction passes on `wire` bytes. They keep the direction busy for `duration`
  // from `start` on.
  void carried(std::uint32_t direction, std::uint32_t wire, picoseconds start,
               picoseconds duration) {
    wire_[direction] += wire;
    if (duration == 0) return;
    const picoseconds last = start + duration - 1;
    while (last >> shift_ >= bins) widen();
    std::uint64_t* row = &busy_[direction * bins];
    const std::uint64_t first_bin = start >> shift_;
    if (first_bin == last >> shift_) {
      row[first_bin] += duration;
    } else {
      spread(row, start, last + 1);
    }
  }

  // Throws model_error unless, for each pair of devices, all messages with their payload and wire
  // bytes were delivered as often as they were sent, and each direction carried exactly the wire
  // bytes of the messages whose routes use it. `name` returns a direction's name for the error.
  void check(const std::function<std::string(std::size_t)>& name) const;

  const pair& between(std::uint32_t from, std::uint32_t to) const {
    return pairs_[from * devices_ + to];
  }
  totals all() const;
  std::uint64_t wire(std::size_t direction) const { return wire_[direction]; }
  picoseconds busy(std::size_t direction) const;
  // The fraction of each bin up to `end` in which the direction was busy. The last bin ends at
  // `end`.
  std::vector<float> busy_by_bin(std::size_t direction, picoseconds end) const;
  picoseconds bin_width() const { return picoseconds{1} << shift_; }

  static constexpr std::size_t bins = 128;

 private:
  static void add(totals& t, const message& m) {
    ++t.messages;
    t.payload += m.payload;
    t.wire += m.wire;
  }
  // Doubles the width of a bin by merging neighbours.
  void widen();
  void spread(std::uint64_t* row, picoseconds start, picoseconds end) const;

  std::uint32_t devices_;
  std::vector<std::vector<std::uint32_t>> steps_;
  std::vector<pair> pairs_;
  std::vector<std::uint64_t> wire_;
  std::vector<std::uint64_t> busy_;  // busy picoseconds; index: direction * bins + bin
  std::uint32_t shift_ = 16;         // log2 of a bin's picoseconds; at first a bin has 66 ns
};

}  // namespace interlace::sim
