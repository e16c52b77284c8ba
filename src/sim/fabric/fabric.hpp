// Messages between the devices of a machine. Each direction of a link is a server of bytes.
// Switches are cut-through, and a full buffer stalls the link that feeds it. Device numbers count
// the GPUs first, and then the host.
//
// Each device owns the links that lead to it and from it. The host also owns the links between
// switches. An event belongs to one device, and handling the event changes only what that device
// owns. A device affects another device only through messages and events that arrive at least
// look_ahead() later. Threads may therefore handle the events of different devices at the same time
// (docs/explanation/simulator.md).
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

// Callbacks that tell the devices how their messages move.
class message_receiver {
 public:
  virtual ~message_receiver() = default;
  // The fabric calls this function when the first link has taken the message. From this time on,
  // the message's place in the sender's queue is free.
  virtual void departed(const message& m) = 0;
  virtual void delivered(const message& m) = 0;
  // The fabric calls this function before the last segment of a copy (message::lanes) arrives. The
  // call tells device `at` in advance that the segment will arrive at `time`.
  virtual void will_arrive(std::uint32_t at, picoseconds time, const message& m) {
    (void)at, (void)time, (void)m;
  }
};

class fabric {
 public:
  // Makes a fabric whose devices all share one queue.
  fabric(const machine::machine& described, event_queue& queue, message_receiver& receiver);
  // Makes a fabric in which each device has its own queue. The list may have more queues than
  // devices; post() sends events to the additional queues.
  fabric(const machine::machine& described, std::vector<event_queue*> queues,
         message_receiver& receiver);

  void send(picoseconds time, const message& m);
  // Handles an event of a message or a link.
  void handle(const event& e);
  // Prefetches the message of an event that handle() will receive later.
  void prefetch(const event& e) const {
    if (!is_of_link(e.kind)) __builtin_prefetch(&tables_[e.device].messages[e.a], 1);
  }
  const message& message_of(const event& e) const { return tables_[e.device].messages[e.a]; }

  // Sends an event from device `from`, whose event is being handled, to device `to`.
  void post(std::uint32_t from, std::uint32_t to, picoseconds time, event_kind kind,
            std::uint32_t device, std::uint32_t a, std::uint64_t b);
  // The least time after which an event of one device can affect another device. 0 means that an
  // event can affect another device at once.
  picoseconds look_ahead() const;
  // If `apart` is true, each device may have a thread of its own from now on. With `apart`,
  // messages and events to other devices wait until receive() is called.
  void keep_apart(bool apart) { apart_ = apart; }
  // Ends a stretch of time. The messages and events that were sent in the stretch can now be
  // received. Returns the earliest time among them.
  picoseconds end_stretch();
  // has_mail returns whether messages or events wait for the device. receive puts them into the
  // device's queue and returns whether there were any.
  bool has_mail(std::uint32_t device) const;
  void receive(std::uint32_t device);

  std::uint32_t host() const { return count_ - 1; }  // the host's device number
  bool reaches(std::uint32_t from, std::uint32_t to) const {
    return !routes_[from * count_ + to].empty();
  }
  // The number of the first link of the route, which is below ports(). At most port_bytes(port)
  // bytes wait for that link.
  std::uint32_t port(std::uint32_t from, std::uint32_t to) const {
    return routes_[from * count_ + to].front().direction;
  }
  std::uint32_t ports() const { return static_cast<std::uint32_t>(directions_.size()); }
  std::uint64_t port_bytes(std::uint32_t port) const { return directions_[port].queue_bytes; }
  // Makes the receiver `to` accept nothing more from the last link of the route before `until`.
  void hold_last(std::uint32_t from, std::uint32_t to, picoseconds until) {
    hold(to, routes_[from * count_ + to].back().direction, until);
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
  struct alignas(64) direction {  // directions share no cache line
    resource server;
    std::uint32_t owner = 0;
    picoseconds per_byte_q16 = 0;  // picoseconds for a byte, times 65536
    picoseconds latency = 0;
    std::uint64_t queue_bytes = 0;  // size of the sender's buffer for this link
    picoseconds queue_time = 0;     // the time in which the link moves queue_bytes
    // Packets of stores, and answers to them, also reserve this server, for the least time between
    // two packets. 0 means no limit.
    resource packets;
    picoseconds per_packet_q16 = 0;  // picoseconds for a packet, times 65536
  };
  struct step {
    std::uint32_t direction = 0;
    picoseconds pass_through = 0;  // latency of the switch after this link
  };
  picoseconds duration(const direction& d, std::uint32_t bytes) const {
    return (bytes * d.per_byte_q16 + 32768) >> 16U;
  }
  // The messages to which the events of one device refer.
  struct alignas(64) table {
    std::vector<message> messages;
    std::vector<std::uint32_t> free;
    // The earliest time of the messages and events that the device sent in this stretch.
    picoseconds earliest = event_queue::never;
  };
  struct mail {
    picoseconds time = 0;
    event_kind kind = event_kind::message_at_link;
    std::uint16_t device = 0;
    std::uint32_t a = 0;
    std::uint64_t b = 0;
    message what;  // the message, if the event is about a message
  };
  using box = std::vector<mail>;
  box& box_to(std::uint32_t stretch, std::uint32_t from, std::uint32_t to) {
    return boxes_[(stretch % 2 * queues_.size() + to) * queues_.size() + from];
  }

  void hop(std::uint32_t at, std::uint32_t id);
  static bool stores(const message& m) { return is_write(m.kind) || m.stored; }
  // Makes the receiver answer the packets of stores, if the rate of packets has a limit.
  void answer(const message& m);
  // Reserves the times of `count` packets in a direction, at `time` or later. Returns the start.
  static picoseconds reserve_packets(direction& d, picoseconds time, std::uint64_t count) {
    return d.packets.reserve(time, (count * d.per_packet_q16 + 32768) >> 16U);
  }
  std::uint32_t keep(std::uint32_t at, const message& m);
  // Moves a message from one device's table to another device's table, together with the message's
  // next event.
  void pass(std::uint32_t from, std::uint32_t to, picoseconds time, event_kind kind,
            const message& m);
  void push(std::uint32_t from, std::uint32_t to, const mail& what);
  // Tells the owner of a direction that the buffer at the direction's end is full. Like a credit,
  // this information arrives after the latency of the link, unless all devices share a queue.
  void hold(std::uint32_t at, std::uint32_t way, picoseconds until);

  // Marks a slot of messages_ whose message has been delivered.
  static constexpr std::uint8_t gone = 0xff;

  std::vector<event_queue*> queues_;  // one for each device
  message_receiver& receiver_;
  std::uint32_t count_;
  std::vector<direction> directions_;         // index: link * 2, plus 1 for the backward direction
  std::vector<std::string> names_;            // names of directions; same index as directions_
  std::vector<std::vector<step>> routes_;     // steps of a route; index: from * count + to
  std::vector<machine::protocol> protocols_;  // index: from * count + to
  std::vector<table> tables_;                 // one for each device
  bool apart_ = false;
  std::uint32_t stretch_ = 0;  // the number of the stretch of time
  std::vector<box> boxes_;     // the index has three parts: stretch modulo 2, receiver, sender
  ledger ledger_;
};

}  // namespace interlace::sim
