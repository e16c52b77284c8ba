// The queues at the egress port, through which one GPU's stores to other GPUs leave, and the
// de-packetizer at the port where other GPUs' packets arrive.
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

  // Sets the path on which the stores of the GPU's next kernel leave the GPU.
  void begin(store_path path);
  // Makes the release at the end of a kernel. Returns false while stores are on their way to a
  // queue. In this case, the event kernel_ends comes again.
  bool release();

  // Handles an event of the queues, or a message of the queues that the first link has taken.
  void handle(const event& e);
  void departed(const message& m);
  // Takes a message of kind packed. `from` has the message's lines.
  void unpack(const message& m, const flushed_window& from);
  // The time by which all packed stores that have arrived are on their way to the L2.
  picoseconds unpacked() const { return unpacker_.clear(); }

  egress& queues() { return egress_; }

 private:
  void free_taken();  // frees the places of stores that have been taken

  gpu& gpu_;
  event_queue& queue_;
  fabric& fabric_;
  egress egress_;
  unpacker unpacker_;
  bool ending_ = false;  // whether the kernel is ending and waits until its stores have been taken
};

}  // namespace interlace::sim
