// Messages between the devices of a machine: each link's direction is a server of bytes, switches
// cut through, and a full buffer ahead holds the link before it back. Devices are the GPUs, and the
// host behind the last of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "machine/machine.hpp"
#include "machine/route.hpp"
#include "sim/engine/event_queue.hpp"
#include "sim/fabric/ledger.hpp"
#include "sim/fabric/message.hpp"

namespace interlace::sim {

// What the devices do when their messages move.
class message_receiver {
 public:
  virtual ~message_receiver() = default;
  // The first link has taken the message; its place in the sender's queue is free.
  virtual void departed(const message& m) = 0;
  virtual void delivered(const message& m) = 0;
};

class fabric {
 public:
  fabric(const machine::machine& described, event_queue& queue, message_receiver& receiver);

  void send(picoseconds time, const message& m);
  // Handles an event of a message.
  void handle(const event& e);
  // Fetches the message of such an event; then it may be looked at.
  void prefetch(const event& e) const { __builtin_prefetch(&messages_[e.a], 1); }
  const message& message_of(const event& e) const { return messages_[e.a]; }

  std::uint32_t host() const { return count_ - 1; }  // as a device
  bool reaches(std::uint32_t from, std::uint32_t to) const {
    return !routes_[from * count_ + to].empty();
  }
  // The first link on the way as a number, and what waits for it at most.
  std::uint32_t port(std::uint32_t from, std::uint32_t to) const {
    return routes_[from * count_ + to].front().direction;
  }
  std::uint32_t ports() const { return static_cast<std::uint32_t>(directions_.size()); }
  std::uint64_t port_bytes(std::uint32_t port) const { return directions_[port].queue_bytes; }
  // The receiver cannot take more from the last link on the way before that time.
  void hold_last(std::uint32_t from, std::uint32_t to, picoseconds until) {
    directions_[routes_[from * count_ + to].back().direction].server.hold_until(until);
  }
  // The protocol of the first link on the way.
  const machine::protocol& protocol(std::uint32_t from, std::uint32_t to) const;

  const ledger& counts() const { return ledger_; }
  // The links' directions, [link * 2 + (0 forward, 1 backward)], as "gpu0 -> gpu1".
  const std::vector<std::string>& direction_names() const { return names_; }
  // Throws model_error unless all that was sent was delivered once, by the links on its way.
  void check_delivered() const;

 private:
  struct direction {
    resource server;
    picoseconds per_byte_q16 = 0;  // picoseconds a byte, times 65536
    picoseconds latency = 0;
    std::uint64_t queue_bytes = 0;  // of its sender's buffer
    picoseconds queue_time = 0;     // that those cover
  };
  struct step {
    std::uint32_t direction = 0;
    picoseconds pass_through = 0;  // latency of the switch behind it
  };
  picoseconds duration(const direction& d, std::uint32_t bytes) const {
    return (bytes * d.per_byte_q16 + 32768) >> 16U;
  }
  void hop(std::uint32_t id);

  // Of a slot of messages_ whose message was delivered.
  static constexpr std::uint8_t gone = 0xff;

  event_queue& queue_;
  message_receiver& receiver_;
  std::uint32_t count_;
  std::vector<direction> directions_;         // [link * 2 + (0 forward, 1 backward)]
  std::vector<std::string> names_;            // of those
  std::vector<std::vector<step>> routes_;     // [from * count + to]
  std::vector<machine::protocol> protocols_;  // [from * count + to]
  std::vector<message> messages_;
  std::vector<std::uint32_t> free_;
  ledger ledger_;
};

}  // namespace interlace::sim
