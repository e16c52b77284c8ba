// Checks the remote stores of a simulated run, for tests. Three conditions must hold. Each byte
// that kernels stored to other devices arrives at its device. No other byte arrives. The replicas
// hold the bytes that arrived last. FinePack's packets are encoded and decoded on the way. The
// check makes runs much slower.
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
  // `memory` points to device address 0.
  explicit delivery_check(const std::byte* memory) : memory_(memory) {}

  void stored(std::uint64_t line, const byte_mask& bytes);
  // Encodes the packet of a window. The packet's data comes from the devices' memory as it is now.
  std::vector<std::uint8_t> encoded(const flushed_window& window, const finepack_format& f) const;
  // Takes a packet that arrived, and the window whose lines the packet should hold.
  void received(std::span<const std::uint8_t> packet, const finepack_format& f,
                const std::vector<queued_line>& lines);
  // Takes stores that arrived as packets of their own.
  void received(std::uint64_t line, const byte_mask& bytes);
  // Throws model_error if a byte is missing, if a byte arrived that no kernel stored, or if a byte
  // differs from the replica. No store may be in flight.
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
