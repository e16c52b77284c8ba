// Messages between the devices of a machine. Each direction of a link is a server of bytes.
// Switches are cut-through, and a full buffer stalls the link that feeds it. Devices are numbered:
// first the GPUs, then the host.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "interlace/machine/machine.hpp"
#include "machine/route.hpp"
#include "sim/engine/event_queue.hpp"
#include "sim/fabric/ledger.hpp"
#include "sim/fabric/message.hpp"

namespace interlace::sim {

// Callbacks to the devices as their messages move.
class message_receiver {
 public:
  virtual ~message_receiver() = default;
  // The first link has taken the message, so the message's place in the sender's queue is free.
  virtual void departed(const message& m) = 0;
  virtual void delivered(const message& m) = 0;
};

class fabric {
 public:
  fabric(const machine::machine& described, event_queue& queue, message_receiver& receiver);

  void send(picoseconds time, const message& m);
  // Handles an event of a message.
  void handle(const event& e);
  // Prefetches the message of an event that handle() will receive later.
  void prefetch(const event& e) const { __builtin_prefetch(&messages_[e.a], 1); }
  const message& message_of(const event& e) const { return messages_[e.a]; }

  std::uint32_t host() const { return count_ - 1; }  // the host's device number
  bool reaches(std::uint32_t from, std::uint32_t to) const {
    return !routes_[from * count_ + to].empty();
  }
  // The number of the first link of the route, below ports(). At most port_bytes(port) bytes wait
  // for that link.
  std::uint32_t port(std::uint32_t from, std::uint32_t to) const {
    return routes_[from * count_ + to].front().direction;
  }
  std::uint32_t ports() const { return static_cast<std::uint32_t>(directions_.size()); }
  std::uint64_t port_bytes(std::uint32_t port) const { return directions_[port].queue_bytes; }
  // Makes the receiver accept nothing more from the last link of the route before `until`.
  void hold_last(std::uint32_t from, std::uint32_t to, picoseconds until) {
    directions_[routes_[from * count_ + to].back().direction].server.hold_until(until);
  }
  // The protocol of the first link of the route.
  const machine::protocol& protocol(std::uint32_t from, std::uint32_t to) const;

  const ledger& counts() const { return ledger_; }
  // The names of the links' directions, such as "gpu0 -> gpu1". The index is link * 2, plus 1 for
  // the backward direction.
  const std::vector<std::string>& direction_names() const { return names_; }
  // Throws model_error unless every message was delivered exactly once, over the links of its
  // route.
  void check_delivered() const;

 private:
  struct direction {
    resource server;
    picoseconds per_byte_q16 = 0;  // picoseconds for a byte, times 65536
    picoseconds latency = 0;
    std::uint64_t queue_bytes = 0;  // size of the sender's buffer for this link
    picoseconds queue_time = 0;     // the time in which the link moves queue_bytes
  };
  struct step {
    std::uint32_t direction = 0;
    picoseconds pass_through = 0;  // latency of the switch after this link
  };
  picoseconds duration(const direction& d, std::uint32_t bytes) const {
    return (bytes * d.per_byte_q16 + 32768) >> 16U;
  }
  void hop(std::uint32_t id);

  // Marks a slot of messages_ whose message was delivered.
  static constexpr std::uint8_t gone = 0xff;

  event_queue& queue_;
  message_receiver& receiver_;
  std::uint32_t count_;
  std::vector<direction> directions_;         // index: link * 2, plus 1 for the backward direction
  std::vector<std::string> names_;            // the index is that of directions_
  std::vector<std::vector<step>> routes_;     // index: from * count + to
  std::vector<machine::protocol> protocols_;  // index: from * count + to
  std::vector<message> messages_;
  std::vector<std::uint32_t> free_;
  ledger ledger_;
};

}  // namespace interlace::sim
