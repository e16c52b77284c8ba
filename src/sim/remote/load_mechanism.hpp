// A way in which all GPUs of a machine handle kernels' loads of other GPUs' memory. The plain way
// is a request and a reply. A mechanism does more.
#pragma once

#include <cstdint>
#include <vector>

#include "interlace/kernel/remote_loads.hpp"
#include "interlace/machine/machine.hpp"
#include "sim/engine/event_queue.hpp"
#include "sim/fabric/fabric.hpp"
#include "sim/fabric/message.hpp"
#include "sim/gpu/gpu.hpp"
#include "sim/remote/iommu.hpp"
#include "sim/remote/page_message.hpp"

namespace interlace::sim {

// The parts of the machine to which a mechanism connects. These parts outlive the mechanism.
struct hardware {
  const machine::machine& described;
  address_map& addresses;
  event_queue& queue;
  fabric& links;
  std::vector<gpu*> gpus;
  iommu* page_walks = nullptr;  // null if addresses are not translated
};

class load_mechanism {
 public:
  virtual ~load_mechanism() = default;

  // The node calls this function when a kernel of a GPU starts.
  virtual void begin_kernel(std::uint32_t /*gpu*/) {}
  // Handles an event of the buffers in which replies share packets, or an event for a coalesced
  // reply that the first link has taken.
  virtual void handle(const event& /*e*/) {}
  virtual void departed(const message& /*m*/) {}
  // Takes a message of the kind coalesced_reply or migration. Only the mechanism knows what to do
  // with these kinds.
  virtual void delivered(const message& m) = 0;
  // Whether the mechanism still has work after all tasks have ended. That work takes no simulated
  // time.
  virtual bool outlasts_tasks() const { return false; }
  // Whether nothing is in flight.
  virtual bool empty() const { return true; }

  struct outcome {
    page_traffic moved;
    std::uint64_t moved_again = 0;  // pages that had already been given to a GPU before
    std::uint64_t delayed = 0;      // first touches that moved no page
    std::uint64_t batches = 0;
    // `coalesced_pages` and `cached_pages` are the numbers of pages for which the decision engine
    // chose the optimisation page by page.
    std::uint64_t coalesced_pages = 0;
    std::uint64_t cached_pages = 0;
    std::vector<kernel::remote_load_decision> decisions;  // decisions of a decision engine
  };
  virtual outcome found(picoseconds now) const = 0;
};

}  // namespace interlace::sim
