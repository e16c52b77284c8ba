// Sends coalesced replies from the GPU that has the data to the GPUs that read the data. The
// replies to each destination collect in a buffer (reply_coalescer) and leave the buffer in
// packets. A packet leaves only if the egress port has room. Until then, more replies join the
// packet. If the buffer has no room, replies wait in a queue before the buffer.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "interlace/machine/machine.hpp"
#include "sim/engine/event_queue.hpp"
#include "sim/fabric/fabric.hpp"
#include "sim/gpu/gpu_counters.hpp"
#include "sim/remote/reply_coalescer.hpp"
#include "sim/remote/reply_packet.hpp"

namespace interlace::sim {

class reply_egress {
 public:
  reply_egress(std::uint32_t index, const machine::gpu& config, std::uint32_t devices,
               event_queue& queue, fabric& links, gpu_counters& counts);

  const reply_format& format() const { return format_; }

  // Takes a reply of `pieces` pieces that is ready at `time`. `pieces` must be at most
  // format().most_pieces().
  void reply(picoseconds time, std::uint32_t to, std::uint16_t id, std::uint32_t pieces);
  // Handles an event of a reply of this GPU, or a message of this GPU that the first link has
  // taken.
  void handle(const event& e);
  void departed(const message& m);

  // Returns the packet of a message of kind coalesced_reply to its receiver, and forgets the
  // packet. The packet's data bytes are 0.
  std::vector<std::uint8_t> take(std::uint32_t slot);

  bool empty() const;

 private:
  struct waiting {
    std::uint16_t id = 0;
    std::uint32_t pieces = 0;
  };
  struct destination {
    std::deque<waiting> blocked;  // replies that wait because the buffer is full
    bool timing = false;          // whether a flush event is pending
  };

  void push(std::uint32_t to, const waiting& w);
  void send_all();

  std::uint32_t index_;
  reply_format format_;
  event_queue& queue_;
  fabric& fabric_;
  reply_coalescer coalescer_;
  std::vector<destination> destinations_;
  std::vector<std::uint64_t> port_waiting_;  // for each port, the number of bytes that wait there
  std::vector<std::vector<std::uint8_t>> slots_;
  std::vector<std::uint32_t> free_slots_;
  reply_coalescer::packet next_;
  gpu_counters& counts_;
};

}  // namespace interlace::sim
