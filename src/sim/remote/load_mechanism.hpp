// What becomes of kernels' loads of other GPUs' memory, on all GPUs of a machine, where that is
// more than a request and a reply.
#pragma once

#include <cstdint>
#include <vector>

#include "kernel/remote_loads.hpp"
#include "machine/machine.hpp"
#include "sim/engine/event_queue.hpp"
#include "sim/fabric/fabric.hpp"
#include "sim/fabric/message.hpp"
#include "sim/gpu/gpu.hpp"
#include "sim/remote/iommu.hpp"
#include "sim/remote/page_message.hpp"

namespace interlace::sim {

// What a mechanism is built into; it lives as long as the mechanism.
struct hardware {
  const machine::machine& described;
  address_map& addresses;
  event_queue& queue;
  fabric& links;
  std::vector<gpu*> gpus;
  iommu* page_walks = nullptr;  // null: addresses are not translated
};

class load_mechanism {
 public:
  virtual ~load_mechanism() = default;

  // A kernel of a GPU starts.
  virtual void begin_kernel(std::uint32_t /*gpu*/) {}
  // An event of replies that share packets, and a message coalesced_reply that its first link has
  // taken.
  virtual void handle(const event& /*e*/) {}
  virtual void departed(const message& /*m*/) {}
  // A message of one of its own kinds: coalesced_reply or migration.
  virtual void delivered(const message& m) = 0;
  // Whether it goes on when all tasks have ended; that takes no time then.
  virtual bool outlasts_tasks() const { return false; }
  // Nothing is under way.
  virtual bool empty() const { return true; }

  struct outcome {
    page_traffic moved;
    std::uint64_t moved_again = 0;  // of the pages, those that a GPU had been given before
    std::uint64_t delayed = 0;      // first touches
    std::uint64_t batches = 0;
    std::uint64_t coalesced_pages = 0;  // that are treated by themselves, so
    std::uint64_t cached_pages = 0;
    std::vector<kernel::remote_load_decision> decisions;  // of an engine
  };
  virtual outcome found(picoseconds now) const = 0;
};

}  // namespace interlace::sim
