// The unit at the host that walks the page table for GPUs whose TLBs do not have a page: a request
// and a reply on the machine's links, and so many walks at a time, in the order of the requests.
#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

#include "machine/machine.hpp"
#include "sim/engine/event_queue.hpp"
#include "sim/fabric/fabric.hpp"
#include "sim/fabric/message.hpp"

namespace interlace::sim {

// How a walk ends.
enum class walk_end : std::uint8_t {
  kept,   // the GPU has a translation to keep
  once,   // for the accesses that wait for it alone
  taken,  // somebody else answers
};

class iommu {
 public:
  struct counts {
    std::uint64_t replies = 0;
    std::uint64_t payload = 0;
    std::uint64_t wire = 0;
  };
  // Says how a GPU's walk for a page ends.
  using decision = std::function<walk_end(std::uint32_t gpu, std::uint64_t page)>;

  // An event page_walked (device: the GPU, b: the page) ends a walk. Every GPU has a link to the
  // host, or usage_error is thrown.
  iommu(const machine::tlb& config, std::uint32_t gpus, event_queue& queue, fabric& links);

  // All are kept where nobody decides.
  void decide(decision d) { decide_ = std::move(d); }

  // A message of kind translation_request.
  void delivered(const message& m);
  void walked(std::uint32_t gpu, std::uint64_t page);
  void answer(std::uint32_t gpu, std::uint64_t page, bool kept);

  const counts& counted() const { return counts_; }

  // Of a translation, as in PCIe's address translation services.
  static constexpr std::uint32_t reply_bytes = 8;

 private:
  picoseconds walk_;
  event_queue& queue_;
  fabric& fabric_;
  decision decide_;
  // When each walker is free, the first at the top.
  std::priority_queue<picoseconds, std::vector<picoseconds>, std::greater<>> free_;
  counts counts_;
};

}  // namespace interlace::sim
