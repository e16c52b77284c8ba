// One GPU whose stores to other GPUs wait in queues: the queues at the port where they leave, and
// the de-packetizer at the port where other GPUs' packets come in.
#pragma once

#include <cstdint>

#include "sim/engine/event_queue.hpp"
#include "sim/fabric/fabric.hpp"
#include "sim/gpu/gpu.hpp"
#include "sim/remote/egress.hpp"
#include "sim/remote/unpacker.hpp"

namespace interlace::sim {

class queued_stores {
 public:
  queued_stores(gpu& of, event_queue& queue, fabric& links);

  // How the stores of the GPU's next kernel leave it.
  void begin(store_path path);
  // A release at the kernel's end. False while stores are on their way to a queue; then an event
  // kernel_ends comes again.
  bool release();

  // An event of the queues, and a message of theirs that its first link has taken.
  void handle(const event& e);
  void departed(const message& m);
  // A message of kind packed has come, whose lines these are.
  void unpack(const message& m, const flushed_window& from);
  // When all packed stores that have arrived are on their way to the L2.
  picoseconds unpacked() const { return unpacker_.clear(); }

  egress& queues() { return egress_; }

 private:
  void free_taken();  // places of stores that have been taken

  gpu& gpu_;
  event_queue& queue_;
  fabric& fabric_;
  egress egress_;
  unpacker unpacker_;
  bool ending_ = false;  // the kernel waits for its stores to be taken
};

}  // namespace interlace::sim
