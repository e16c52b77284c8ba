#include "sim/fabric/ledger.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "interlace/base/errors.hpp"

namespace interlace::sim {

ledger::ledger(std::uint32_t devices, std::vector<std::vector<std::uint32_t>> steps,
               std::size_t directions)
    : devices_(devices),
      steps_(std::move(steps)),
      departures_(std::size_t{devices} * devices),
      arrivals_(std::size_t{devices} * devices),
      ways_(directions) {}

void ledger::widen(way& w) {
  for (std::size_t k = 0; k < bins / 2; ++k) w.busy[k] = w.busy[2 * k] + w.busy[2 * k + 1];
  std::fill(w.busy.begin() + bins / 2, w.busy.end(), 0);
  ++w.shift;
}

void ledger::spread(way& w, picoseconds start, picoseconds end) {
  while (start < end) {
    const std::uint64_t bin = start >> w.shift;
    const picoseconds until = std::min(end, (bin + 1) << w.shift);
    w.busy[bin] += until - start;
    start = until;
  }
}

std::uint32_t ledger::shift() const {
  std::uint32_t widest = way{}.shift;
  for (const way& w : ways_) widest = std::max(widest, w.shift);
  return widest;
}

void ledger::check(const std::function<std::string(std::size_t)>& name) const {
  std::vector<std::uint64_t> routed(ways_.size());
  for (std::uint32_t from = 0; from < devices_; ++from) {
    for (std::uint32_t to = 0; to < devices_; ++to) {
      const pair p = between(from, to);
      const auto expect = [&](std::uint64_t sent, std::uint64_t delivered, const char* what) {
        if (sent == delivered) return;
        throw model_error("gpu" + std::to_string(from) + " sent " + std::to_string(sent) + " " +
                          what + " to gpu" + std::to_string(to) + ", but " +
                          std::to_string(delivered) + " were delivered");
      };
      expect(p.sent.messages, p.delivered.messages, "messages");
      expect(p.sent.payload, p.delivered.payload, "bytes of payload");
      expect(p.sent.wire, p.delivered.wire, "bytes with protocol");
      for (const std::uint32_t d : steps_[from * devices_ + to]) routed[d] += p.sent.wire;
    }
  }
  for (std::size_t d = 0; d < ways_.size(); ++d) {
    if (routed[d] == ways_[d].wire) continue;
    throw model_error("the link " + name(d) + " carried " + std::to_string(ways_[d].wire) +
                      " bytes, but the messages routed over it have " + std::to_string(routed[d]));
  }
}

ledger::totals ledger::all() const {
  totals sum;
  for (const departure& d : departures_) {
    sum.messages += d.sent.messages;
    sum.payload += d.sent.payload;
    sum.wire += d.sent.wire;
  }
  return sum;
}

picoseconds ledger::busy(std::size_t direction) const {
  const way& w = ways_[direction];
  return std::accumulate(w.busy.begin(), w.busy.end(), picoseconds{0});
}

std::vector<float> ledger::busy_by_bin(std::size_t direction, picoseconds end) const {
  way w = ways_[direction];
  while (w.shift < shift()) widen(w);
  std::vector<float> parts;
  for (picoseconds begin = 0; begin < end && parts.size() < bins; begin += bin_width()) {
    const std::uint64_t busy = w.busy[parts.size()];
    parts.push_back(static_cast<float>(static_cast<double>(busy) /
                                       static_cast<double>(std::min(bin_width(), end - begin))));
  }
  return parts;
}

}  // namespace interlace::sim
