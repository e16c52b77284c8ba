// FinePack's de-packetizer (Muthukrishnan et al., HPCA 2023, section IV-B): a buffer of lines at
// the receiving port. The L2 empties the buffer at the L2's own rate.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "interlace/machine/machine.hpp"
#include "sim/engine/event_queue.hpp"

namespace interlace::sim {

class unpacker {
 public:
  explicit unpacker(const machine::gpu& g)
      : per_sector_q16_(static_cast<picoseconds>(
            std::llround(65536.0 * 1e12 * g.l2.sector_bytes / g.l2.bytes_per_s))),
        leaves_(g.write_queue.unpacked_lines, 0) {}

  // Takes the next line of a packet that arrived at `time`. The line enters the buffer when the
  // buffer has room, and leaves the buffer after all earlier lines. Returns the time when the line
  // has left for the L2.
  picoseconds take(picoseconds time, std::uint32_t sectors) {
    entered_ = std::max(time, leaves_[next_]);
    clear_q16_ = std::max(clear_q16_, entered_ << 16U) + sectors * per_sector_q16_;
    leaves_[next_] = clear();
    if (++next_ == leaves_.size()) next_ = 0;
    return clear();
  }
  // The time when the last line entered the buffer. Until that time, the line's packet holds the
  // port.
  picoseconds entered() const { return entered_; }
  // The time by which all lines that have arrived so far will have left for the L2.
  picoseconds clear() const { return (clear_q16_ + 65535) >> 16U; }

 private:
  picoseconds per_sector_q16_;  // picoseconds for a sector, times 65536
  // For each of the last lines, the time when the line leaves. The list has one time for each line
  // that the buffer can hold.
  std::vector<picoseconds> leaves_;
  std::size_t next_ = 0;
  picoseconds clear_q16_ = 0;
  picoseconds entered_ = 0;
};

}  // namespace interlace::sim
