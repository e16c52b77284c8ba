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
      pairs_(std::size_t{devices} * devices),
      wire_(directions),
      busy_(directions * bins) {}

void ledger::widen() {
  for (std::size_t row = 0; row < busy_.size(); row += bins) {
    for (std::size_t k = 0; k < bins / 2; ++k) {
      busy_[row + k] = busy_[row + 2 * k] + busy_[row + 2 * k + 1];
    }
    std::fill_n(busy_.begin() + static_cast<std::ptrdiff_t>(row + bins / 2), bins / 2, 0);
  }
  ++shift_;
}

void ledger::spread(std::uint64_t* row, picoseconds start, picoseconds end) const {
  while (start < end) {
    const std::uint64_t bin = start >> shift_;
    const picoseconds until = std::min(end, (bin + 1) << shift_);
    row[bin] += until - start;
    start = until;
  }
}

void ledger::check(const std::function<std::string(std::size_t)>& name) const {
  std::vector<std::uint64_t> routed(wire_.size());
  for (std::uint32_t from = 0; from < devices_; ++from) {
    for (std::uint32_t to = 0; to < devices_; ++to) {
      const pair& p = between(from, to);
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
  for (std::size_t d = 0; d < wire_.size(); ++d) {
    if (routed[d] == wire_[d]) continue;
    throw model_error("the link " + name(d) + " carried " + std::to_string(wire_[d]) +
                      " bytes, but the messages routed over it have " + std::to_string(routed[d]));
  }
}

ledger::totals ledger::all() const {
  totals sum;
  for (const pair& p : pairs_) {
    sum.messages += p.sent.messages;
    sum.payload += p.sent.payload;
    sum.wire += p.sent.wire;
  }
  return sum;
}

picoseconds ledger::busy(std::size_t direction) const {
  const auto row = busy_.begin() + static_cast<std::ptrdiff_t>(direction * bins);
  return std::accumulate(row, row + bins, picoseconds{0});
}

std::vector<float> ledger::busy_by_bin(std::size_t direction, picoseconds end) const {
  std::vector<float> parts;
  for (picoseconds begin = 0; begin < end && parts.size() < bins; begin += bin_width()) {
    const std::uint64_t busy = busy_[direction * bins + parts.size()];
    parts.push_back(static_cast<float>(static_cast<double>(busy) /
                                       static_cast<double>(std::min(bin_width(), end - begin))));
  }
  return parts;
}

}  // namespace interlace::sim
