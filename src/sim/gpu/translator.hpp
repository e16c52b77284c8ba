// Translates the addresses that a GPU's compute units access. A translation comes from an L1 TLB,
// from the GPU's L2 TLB, or from the host if neither TLB has the page (sim/remote/iommu.hpp).
//
// An access that misses waits for its page, and later accesses go ahead. All accesses to a page
// that is in flight wait for the same answer, in an L1 TLB as well as in the L2 TLB. An access that
// finds no free entry for its page waits for an entry. Accesses get free entries in the order in
// which they began to wait.
#pragma once

#include <cstdint>
#include <deque>
#include <unordered_map>
#include <vector>

#include "interlace/machine/machine.hpp"
#include "sim/engine/event_queue.hpp"
#include "sim/fabric/fabric.hpp"
#include "sim/gpu/page_waiter.hpp"
#include "sim/gpu/tlb.hpp"
#include "sim/gpu/translation_counts.hpp"

namespace interlace::sim {

class translator {
 public:
  enum class answer : std::uint8_t {
    there,
    under_way,
    no_entry,  // the L1 TLB has no entry for another page in flight
  };

  // Makes `buffers` L1 TLBs. The event page_translated brings an answer to one of them: `a` is the
  // L1 TLB, and `b` is the page.
  translator(std::uint32_t index, const machine::tlb& config, std::uint32_t buffers,
             event_queue& queue, fabric& links);

  std::uint64_t page_of(std::uint64_t address) const { return address >> page_shift_; }

  // Looks up an access in an L1 TLB, and requests the page if the TLB lacks it. Counts the access,
  // unless there is no free entry.
  answer look_up(std::uint32_t buffer, std::uint64_t page) {
    if (!buffers_[buffer].entries.find(page)) return miss(buffer, page);
    ++counts_.l1_hits;
    return answer::there;
  }
  // Makes the instruction wait for a page that is not in the TLB. When the page arrives, answered()
  // returns the instruction. An access that found no free entry is counted once it gets an entry.
  void wait(std::uint32_t buffer, std::uint64_t page, const page_waiter& w);

  // Handles the event page_translated. Returns the instructions that can resume. An instruction is
  // listed once for each of its accesses, and the accesses need no further look-up.
  std::vector<page_waiter> answered(std::uint32_t buffer, std::uint64_t page);
  // Takes the host's answer. If `kept` is false, the answer holds only for the accesses that wait
  // for it.
  void walked(std::uint64_t page, bool kept);

  // Forgets a page that is about to move.
  void shoot_down(std::uint64_t page);

  const translation_counts& counts() const { return counts_; }
  bool empty() const;

 private:
  struct miss_entry {
    std::uint64_t page = 0;
    std::vector<page_waiter> waiting;
  };
  struct stalled {
    std::uint64_t page = 0;
    page_waiter who;
  };
  struct buffer_state {
    tlb entries;
    std::vector<miss_entry> misses;
    std::deque<stalled> stalled_for_entry;
  };
  struct walk {
    picoseconds asked = 0;
    std::vector<std::uint32_t> waiting;  // the L1 TLBs that wait for the page
  };

  answer miss(std::uint32_t buffer, std::uint64_t page);
  static miss_entry* under_way(buffer_state& b, std::uint64_t page);
  void ask_l2(std::uint32_t buffer, std::uint64_t page);
  void ask_host(picoseconds time, std::uint64_t page);

  std::uint32_t index_;
  machine::tlb config_;
  std::uint32_t page_shift_;
  event_queue& queue_;
  fabric& fabric_;
  std::vector<buffer_state> buffers_;
  tlb l2_;
  std::unordered_map<std::uint64_t, walk> walks_;  // the key is the page
  struct l1_request {
    std::uint32_t buffer = 0;
    std::uint64_t page = 0;
  };
  std::deque<l1_request> stalled_;  // the requests that wait for an entry of the L2 TLB
  translation_counts counts_;
};

}  // namespace interlace::sim
