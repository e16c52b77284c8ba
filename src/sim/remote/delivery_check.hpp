// What tests hold a simulated run's remote stores against: that each byte which kernels stored on
// other devices came in there, and no other, and that what came in last is what their replicas
// hold. FinePack's packets go through encode and decode on the way. Much slower than a run without.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "sim/remote/finepack_packet.hpp"
#include "sim/remote/remote_write_queue.hpp"

namespace interlace::sim {

class delivery_check {
 public:
  // `memory` is device address 0.
  explicit delivery_check(const std::byte* memory) : memory_(memory) {}

  void stored(std::uint64_t line, const byte_mask& bytes);
  // The packet of a window, with the data that its devices' memory has now.
  std::vector<std::uint8_t> encoded(const flushed_window& window, const finepack_format& f) const;
  // A packet came in; its lines are said to be these.
  void received(std::span<const std::uint8_t> packet, const finepack_format& f,
                const std::vector<queued_line>& lines);
  // Stores came in that are packets of their own.
  void received(std::uint64_t line, const byte_mask& bytes);
  // Throws model_error where something is missing, came from nowhere or is not what the replica
  // holds. Nothing is under way.
  void compare() const;
  std::uint64_t packets() const { return packets_; }

 private:
  struct line_state {
    byte_mask stored;
    byte_mask received;
    byte_mask with_data;
    std::array<std::uint8_t, 128> data{};
  };

  std::uint8_t byte_at(std::uint64_t address) const {
    return std::to_integer<std::uint8_t>(memory_[address]);
  }

  const std::byte* memory_;
  std::map<std::uint64_t, line_state> lines_;
  std::uint64_t packets_ = 0;
};

}  // namespace interlace::sim
