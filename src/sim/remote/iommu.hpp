// The unit at the host that walks the page table when the TLBs of a GPU lack a page. A walk takes a
// request and a reply on the machine's links. Only a limited number of walks run at a time. Walks
// begin in the order of their requests.
#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

#include "interlace/machine/machine.hpp"
#include "sim/engine/event_queue.hpp"
#include "sim/fabric/fabric.hpp"
#include "sim/fabric/message.hpp"

namespace interlace::sim {

// The result of a walk.
enum class walk_end : std::uint8_t {
  kept,   // the GPU keeps the translation
  once,   // the translation serves only the accesses that wait for it
  taken,  // another object will answer the request
};

class iommu {
 public:
  struct counts {
    std::uint64_t replies = 0;
    std::uint64_t payload = 0;
    std::uint64_t wire = 0;
  };
  // Decides how a GPU's walk for a page ends.
  using decision = std::function<walk_end(std::uint32_t gpu, std::uint64_t page)>;

  // Each walk ends with the event page_walked, whose device is the GPU and whose `b` is the page.
  // The constructor throws usage_error unless every GPU has a link to the host.
  iommu(const machine::tlb& config, std::uint32_t gpus, event_queue& queue, fabric& links);

  // Sets the decision. Without a decision, the GPU keeps every translation.
  void decide(decision d) { decide_ = std::move(d); }

  // Takes a message of kind translation_request.
  void delivered(const message& m);
  void walked(std::uint32_t gpu, std::uint64_t page);
  void answer(std::uint32_t gpu, std::uint64_t page, bool kept);

  const counts& counted() const { return counts_; }

  // The size of a translation in bytes, as in PCIe's address translation services.
  static constexpr std::uint32_t reply_bytes = 8;

 private:
  picoseconds walk_;
  event_queue& queue_;
  fabric& fabric_;
  decision decide_;
  // The times at which the walkers become free. The earliest time is at the top.
  std::priority_queue<picoseconds, std::vector<picoseconds>, std::greater<>> free_;
  counts counts_;
};

}  // namespace interlace::sim
