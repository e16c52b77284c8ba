// FinePack's remote write queue: the partition of one destination (Muthukrishnan et al., HPCA 2023,
// section IV-B). Stores wait in lines with byte enables until a packet is worth sending.
//
// The partition has `windows` open windows, which share `entries` lines. The paper has one window.
// Several windows are the "multiple open outer transactions" of section IV-C. A window has two
// registers: a base address register, and an available payload register that starts at the largest
// payload. The first store of a window sets the base. The base is the address of this store without
// the low bits that an offset can express. A queue can also grow its windows (the alternative of
// section IV-C). Such a window keeps the range that all its stores span. It takes a store as long
// as an offset can also span the new range.
//
// Charging a store: the available payload register always holds the largest payload minus the bytes
// that the packetizer would send now. For each line, the packetizer sends the enabled bytes, and a
// sub-header for each run of enabled bytes. The paper first checks and subtracts the store's length
// and a sub-header. It then looks up the line, and corrects the register if the store hit. This
// queue looks up the line first and then charges the bytes that the store adds. A store that
// overwrites adds nothing. A store that touches a run adds only its own bytes. A store that joins
// two runs adds less than its own bytes. A packet can therefore be full to its last byte and is
// never larger than the largest payload. With the paper's check, the queue would flush up to one
// store earlier. The hardware needs only the byte enables of the line that is hit, which it reads
// anyway.
//
// This class has no notion of time. Its user decides when flushes happen and how long they take.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "interlace/sim/fabric/byte_mask.hpp"
#include "sim/gpu/store_counts.hpp"
#include "sim/remote/finepack_packet.hpp"
#include "sim/remote/line_buffer.hpp"

namespace interlace::sim {

struct queued_line {
  std::uint64_t line = 0;
  byte_mask bytes;
};

// A flushed window, in the form that the packetizer takes.
struct flushed_window {
  std::uint64_t base = 0;
  flush_reason reason = flush_reason::release;
  std::uint32_t stores = 0;        // number of stores that the window received
  std::uint32_t payload = 0;       // payload of the packet, including sub-headers
  std::vector<queued_line> lines;  // lines in order of arrival
};

class remote_write_queue {
 public:
  struct settings {
    std::uint32_t entries = 64;
    std::uint32_t line_bytes = 128;
    finepack_format format;  // the format's payload must hold at least a line and a sub-header
    std::uint32_t windows = 1;
    bool grows = false;
  };
  // The window for which a store was not taken, and the reason. The caller must flush this window
  // and offer the store again.
  struct refusal {
    std::uint32_t window = 0;
    flush_reason reason = flush_reason::window;
  };

  explicit remote_write_queue(const settings& s);

  // The number of payload bytes that the packetizer makes of one line. `bytes` says which bytes of
  // the line wait.
  std::uint32_t cost(const byte_mask& bytes) const {
    return bytes.count() + settings_.format.subheader_bytes * bytes.runs();
  }

  // Calls visit(bytes) for each part of a store. Each part can be offered by itself. There is only
  // one part, with two exceptions: a window is smaller than a line, or the separate bytes of the
  // line alone exceed a packet.
  template <class Visit>
  void each_part(const byte_mask& bytes, const Visit& visit) const {
    if (whole_lines_ && cost(bytes) <= settings_.format.payload_bytes) {
      visit(bytes);
    } else {
      split(bytes, part_bytes_, visit);
    }
  }

  // Offers a part of a store to some bytes of a line. The part counts as `stores` stores. The queue
  // takes the part unless it returns a refusal.
  std::optional<refusal> offer(std::uint64_t line, const byte_mask& bytes, std::uint32_t stores);

  // Moves the lines of the window `from` to `out`, as one packet. `out` reuses its memory. Returns
  // false if the window has no lines.
  bool flush(std::uint32_t from, flush_reason reason, flushed_window& out);
  // Moves one line to `out`, as a packet of its own. Returns false if the line is not in the queue.
  // If windows are smaller than lines, one line can give several packets. In this case, the caller
  // calls this function until it returns false.
  bool flush_line(std::uint64_t line, flush_reason reason, flushed_window& out);
  bool has_line(std::uint64_t line) const { return entry_of(line) != line_buffer::none; }

  std::uint32_t windows() const { return static_cast<std::uint32_t>(windows_.size()); }
  bool empty() const { return lines_.size() == 0; }
  std::uint32_t lines() const { return lines_.size(); }
  // These functions return the registers of a window. If the window is empty, `available` is the
  // largest payload and `base` is 2^64 - 1, as in the paper.
  std::uint32_t available(std::uint32_t window) const { return windows_[window].available; }
  std::uint64_t base(std::uint32_t window) const { return windows_[window].first; }

  std::uint64_t stored_bytes() const { return stored_; }
  // The number of received bytes that later stores overwrote in the queue.
  std::uint64_t overwritten_bytes() const { return overwritten_; }

 private:
  struct outer_window {
    std::uint64_t first = ~std::uint64_t{0};
    std::uint64_t end = 0;  // end of the range of all stores, if the window can grow
    std::uint32_t available = 0;
    std::uint32_t stores = 0;
    std::uint64_t used = 0;  // time of the last use
    bool open() const { return first != ~std::uint64_t{0}; }
  };

  template <class Visit>
  void split(const byte_mask& bytes, std::uint32_t part, const Visit& visit) const {
    for (std::uint32_t at = 0; at < settings_.line_bytes; at += part) {
      byte_mask some;
      some.set(at, part);
      some = some & bytes;
      if (!some.any()) continue;
      if (cost(some) <= settings_.format.payload_bytes) {
        visit(some);
      } else {
        split(some, part / 2, visit);
      }
    }
  }
  bool holds(const outer_window& w, std::uint64_t first, std::uint64_t last) const;
  std::uint32_t longest_unused() const;
  // The first entry that has bytes of a line, or line_buffer::none.
  std::uint32_t entry_of(std::uint64_t line) const;
  void reset(outer_window& w) const;
  void take_out(std::uint32_t id, flushed_window& out);

  settings settings_;
  bool whole_lines_;          // whether a window is at least as large as a line
  std::uint32_t part_bytes_;  // size of the parts into which a store is split, at most 64
  line_buffer lines_;
  std::vector<outer_window> windows_;
  std::uint64_t uses_ = 0;
  std::uint64_t stored_ = 0;
  std::uint64_t overwritten_ = 0;
};

}  // namespace interlace::sim
