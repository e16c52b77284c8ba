// FinePack's remote write queue: the partition of one destination (Muthukrishnan et al., HPCA 2023,
// section IV-B). Stores wait in lines with byte enables until a packet is worth sending.
//
// The partition has `entries` lines, which its windows share, and `windows` open windows. The paper
// has one window; several are its section IV-C's "multiple open outer transactions". A window has a
// base address register and an available payload register, which starts at the largest payload. Its
// first store sets the base: the address without the low bits that an offset can express. A queue
// that grows its windows (the alternative of section IV-C) instead keeps the range that all stores
// of a window span, and takes a store as long as an offset can span the new range, too.
//
// How a store is charged: the register always holds the largest payload minus exactly what the
// packetizer would send now. That is, over all lines, the enabled bytes plus a sub-header for each
// run of them. The paper first checks and subtracts the store's length and a sub-header, then looks
// the line up, and corrects the register if the store hit. Here the line is looked up first, and
// the store is charged what it adds: nothing if it overwrites, only its bytes if they touch a run,
// less than its bytes if they join two runs. So a packet can be full to its last byte and is never
// larger than the largest payload; the paper's check would flush up to one store earlier. The
// hardware needs only the byte enables of the line that is hit, which it reads anyway.
//
// This is a data structure without time. Its user decides when flushes happen and what they cost.
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

// A flushed window, for the packetizer.
struct flushed_window {
  std::uint64_t base = 0;
  flush_reason reason = flush_reason::release;
  std::uint32_t stores = 0;        // stores received
  std::uint32_t payload = 0;       // of the packet, including sub-headers
  std::vector<queued_line> lines;  // in order of arrival
};

class remote_write_queue {
 public:
  struct settings {
    std::uint32_t entries = 64;
    std::uint32_t line_bytes = 128;
    finepack_format format;  // its payload must hold at least a line and a sub-header
    std::uint32_t windows = 1;
    bool grows = false;
  };
  // Why a store was not taken. The caller flushes this window and offers the store again.
  struct refusal {
    std::uint32_t window = 0;
    flush_reason reason = flush_reason::window;
  };

  explicit remote_write_queue(const settings& s);

  // Payload bytes that the packetizer makes of these bytes of one line.
  std::uint32_t cost(const byte_mask& bytes) const {
    return bytes.count() + settings_.format.subheader_bytes * bytes.runs();
  }

  // Calls visit(bytes) for parts of a store that can be offered. There is one part, unless a window
  // is smaller than a line, or the separate bytes of the line alone exceed a packet.
  template <class Visit>
  void each_part(const byte_mask& bytes, const Visit& visit) const {
    if (whole_lines_ && cost(bytes) <= settings_.format.payload_bytes) {
      visit(bytes);
    } else {
      split(bytes, part_bytes_, visit);
    }
  }

  // Offers a part of a store to some bytes of a line, counted as `stores` stores. It is taken
  // unless a refusal is returned.
  std::optional<refusal> offer(std::uint64_t line, const byte_mask& bytes, std::uint32_t stores);

  // Fills `out` with the lines of the window `from` as a packet; `out` reuses its memory. Returns
  // false if the window has no lines.
  bool flush(std::uint32_t from, flush_reason reason, flushed_window& out);
  // The same for one line as a packet of its own. Returns false if the line is not in the queue.
  // If windows are smaller than lines, a line can be several packets: call this until it returns
  // false.
  bool flush_line(std::uint64_t line, flush_reason reason, flushed_window& out);
  bool has_line(std::uint64_t line) const { return entry_of(line) != line_buffer::none; }

  std::uint32_t windows() const { return static_cast<std::uint32_t>(windows_.size()); }
  bool empty() const { return lines_.size() == 0; }
  std::uint32_t lines() const { return lines_.size(); }
  // The registers of a window. If the window is empty, `available` is the largest payload and
  // `base` is 2^64 - 1, as in the paper.
  std::uint32_t available(std::uint32_t window) const { return windows_[window].available; }
  std::uint64_t base(std::uint32_t window) const { return windows_[window].first; }

  std::uint64_t stored_bytes() const { return stored_; }
  // of these, overwritten in the queue
  std::uint64_t overwritten_bytes() const { return overwritten_; }

 private:
  struct outer_window {
    std::uint64_t first = ~std::uint64_t{0};
    std::uint64_t end = 0;  // end of the range of stores, where the window grows
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
  // the first entry with bytes of a line, or none
  std::uint32_t entry_of(std::uint64_t line) const;
  void reset(outer_window& w) const;
  void take_out(std::uint32_t id, flushed_window& out);

  settings settings_;
  bool whole_lines_;          // a window is at least as large as a line
  std::uint32_t part_bytes_;  // at most 64: the parts of a line by which a store is split
  line_buffer lines_;
  std::vector<outer_window> windows_;
  std::uint64_t uses_ = 0;
  std::uint64_t stored_ = 0;
  std::uint64_t overwritten_ = 0;
};

}  // namespace interlace::sim
