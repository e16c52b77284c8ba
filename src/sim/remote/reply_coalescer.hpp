// The CoDec of an RDMA engine (DualOpt, PACT 2022, section 4.1.3 and Fig. 7e). The GPU whose memory
// is read has the coalescer: a buffer of responses for each destination. Several responses leave in
// one packet. The GPU that reads has the de-coalescer, which gives each load its pieces.
//
// A packet leaves when a buffer has enough pieces to fill it, or when no response has entered the
// buffer for as long as the timeout. The buffers that have a packet are served in turn.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "interlace/base/errors.hpp"
#include "sim/engine/event_queue.hpp"
#include "sim/remote/bitmask_generator.hpp"

namespace interlace::sim {

enum class reply_cause : std::uint8_t { full, timeout };

class reply_coalescer {
 public:
  struct settings {
    std::uint32_t destinations = 4;  // number of GPUs; the buffer of the GPU itself stays empty
    std::uint32_t buffer_pieces = 64;
    std::uint32_t packet_pieces = 10;
    picoseconds timeout = 30'000;
  };
  struct packet {
    std::uint32_t to = 0;
    reply_cause cause = reply_cause::full;
    std::vector<std::uint16_t> ids;  // for each piece in order of arrival, the ID of its load
  };

  explicit reply_coalescer(const settings& s) : settings_(s), buffers_(s.destinations) {}

  bool has_room(std::uint32_t to, std::uint32_t pieces) const {
    return buffers_[to].ids.size() + pieces <= settings_.buffer_pieces;
  }
  // Adds a response of `pieces` pieces. The buffer must have room for these pieces.
  void push(picoseconds now, std::uint32_t to, std::uint16_t id, std::uint32_t pieces) {
    if (pieces == 0 || !has_room(to, pieces)) {
      throw model_error("a response of " + std::to_string(pieces) +
                        " pieces has no room in the buffer of gpu" + std::to_string(to));
    }
    buffer& b = buffers_[to];
    b.ids.insert(b.ids.end(), pieces, id);
    b.flush_at = now + settings_.timeout;
  }

  // Fills `out` with the next packet that may leave now. Only destinations for which `open(to)` is
  // true are considered. `out` reuses its memory. Returns false if no packet may leave.
  template <class Open>
  bool take(picoseconds now, const Open& open, packet& out) {
    for (std::uint32_t step = 0; step < settings_.destinations; ++step) {
      const std::uint32_t to = (turn_ + step) % settings_.destinations;
      buffer& b = buffers_[to];
      const bool full = b.ids.size() >= settings_.packet_pieces;
      if (b.ids.empty() || (!full && b.flush_at > now) || !open(to)) continue;
      const std::size_t n = full ? settings_.packet_pieces : b.ids.size();
      out.to = to;
      out.cause = full ? reply_cause::full : reply_cause::timeout;
      out.ids.assign(b.ids.begin(), b.ids.begin() + static_cast<std::ptrdiff_t>(n));
      b.ids.erase(b.ids.begin(), b.ids.begin() + static_cast<std::ptrdiff_t>(n));
      turn_ = (to + 1) % settings_.destinations;
      return true;
    }
    return false;
  }

  // The time at which the buffer's contents leave at the latest. There is no value if the buffer is
  // empty.
  std::optional<picoseconds> flush_at(std::uint32_t to) const {
    if (buffers_[to].ids.empty()) return std::nullopt;
    return buffers_[to].flush_at;
  }
  std::uint32_t pieces(std::uint32_t to) const {
    return static_cast<std::uint32_t>(buffers_[to].ids.size());
  }
  bool empty() const {
    return std::all_of(buffers_.begin(), buffers_.end(),
                       [](const buffer& b) { return b.ids.empty(); });
  }

 private:
  struct buffer {
    std::deque<std::uint16_t> ids;
    picoseconds flush_at = 0;
  };
  settings settings_;
  std::vector<buffer> buffers_;
  std::uint32_t turn_ = 0;
};

// Takes packets apart. A load is complete when all its pieces have arrived.
class reply_decoalescer {
 public:
  // Registers a load that waits for these pieces of its line.
  void expect(std::uint16_t id, piece_mask pieces) {
    if (pieces == 0 || !waiting_.emplace(id, pieces).second) {
      throw model_error("response ID " + std::to_string(id) + " is in use, or requests no piece");
    }
  }
  // A piece that has arrived: the piece's position in the line, and whether it was the last piece
  // of its load. The function below throws model_error if no load waits for the piece.
  struct piece {
    std::uint32_t number = 0;
    bool complete = false;
  };
  piece arrived(std::uint16_t id) {
    const auto found = waiting_.find(id);
    if (found == waiting_.end()) {
      throw model_error("a piece with response ID " + std::to_string(id) +
                        " has arrived, but no load waits for it");
    }
    const auto number = static_cast<std::uint32_t>(std::countr_zero(found->second));
    found->second &= found->second - 1;
    if (found->second != 0) return {number, false};
    waiting_.erase(found);
    return {number, true};
  }
  std::size_t waiting() const { return waiting_.size(); }

 private:
  std::unordered_map<std::uint16_t, piece_mask> waiting_;
};

}  // namespace interlace::sim
