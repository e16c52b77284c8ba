// Griffin (HPCA 2020): the driver on the host moves pages of unified memory. A page can move more
// than once.
//
// The four parts of Griffin, as this file implements them:
//   delayed first touch   A page that no GPU has been given moves to the first remote GPU that
//                         touches the page. If that GPU has more than its share of the pages, this
//                         touch is a remote access, and the next touch moves the page.
//   classification        GPUs report what they access (access_counters). From time to time the
//                         driver classifies the accessed pages (page_classifier) and moves the
//                         pages that another GPU mostly uses, or is beginning to use.
//   scheduling            Pages of one GPU move together in a batch. First touches go first, then
//                         the pages of the GPU that has the most to give away.
//   draining              Compute units keep running. GPUs forget the translations of the batch and
//                         answer once their outstanding loads of the batch's pages have ended.
//                         GPUs do not wait for posted stores, or for accesses that use an older
//                         translation. New accesses to a page of the batch wait in the page-table
//                         walk.
//
// A TLB keeps only translations of its own GPU's memory. The walk for another GPU's page therefore
// serves only the accesses that wait for this walk. (DualOpt, PACT 2022, section 6.3, says that its
// baseline differs in this point.)
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "interlace/machine/machine.hpp"
#include "sim/engine/event_queue.hpp"
#include "sim/fabric/fabric.hpp"
#include "sim/fabric/message.hpp"
#include "sim/remote/iommu.hpp"
#include "sim/remote/page_classifier.hpp"
#include "sim/remote/page_message.hpp"
#include "sim/remote/page_migration.hpp"

namespace interlace::sim {

class griffin {
 public:
  struct counts {
    page_traffic moved;
    std::uint64_t again = 0;    // pages that had already been given to a GPU before
    std::uint64_t delayed = 0;  // first touches that moved no page
    std::uint64_t batches = 0;
  };

  // The constructor keeps a reference to `homes`, which holds the home of each page, and changes
  // its entries. The first page is at `first_address`. `answer` ends a walk for which walked()
  // returned walk_end::taken.
  griffin(const machine::gpu& described, std::vector<std::uint8_t>& homes,
          std::uint64_t first_address, std::uint32_t page_bytes, event_queue& queue, fabric& links,
          std::vector<migrating_gpu*> gpus,
          std::function<void(std::uint32_t gpu, std::uint64_t page, bool kept)> answer);

  // A GPU's walk for a page has ended.
  walk_end walked(std::uint32_t gpu, std::uint64_t page);

  // The length of a counting period.
  picoseconds counting_period() const { return counting_; }
  // The most pages that a GPU reports for one counting period.
  std::uint32_t counted_pages() const { return rules_.counted_pages; }
  // Sends a GPU's counts of period number `period` to the host.
  void report(std::uint32_t gpu, std::uint64_t period, std::vector<page_access> counted);

  // A GPU has ended its accesses to the pages of the batch.
  void drained(std::uint32_t gpu, picoseconds when);
  // Takes a message of kind migration.
  void delivered(const message& m);

  const counts& counted() const { return counts_; }
  bool empty() const;

 private:
  enum class state : std::uint8_t { untouched, delayed, placed, moving };
  enum class step : std::uint8_t { report, block, blocked, move, pull, data, moved };
  struct page_state {
    state now = state::untouched;
    bool given = false;  // whether the page was given to a GPU
    bool proposed = false;
    std::uint32_t to = 0;                // the GPU that has the page or will have it
    std::uint32_t received = 0;          // bytes of the page that were received
    picoseconds written = 0;             // time when these bytes are in memory
    std::vector<std::uint32_t> waiting;  // GPUs whose walks wait for the page
  };
  struct proposal {
    std::uint64_t page = 0;
    std::uint32_t to = 0;
    std::uint64_t period = 0;  // the counting period of the classification
  };
  struct counted_period {
    std::uint64_t period = 0;
    std::vector<page_access> pages;
  };

  page_state& at(std::uint64_t page);
  void give(std::uint64_t page, std::uint32_t gpu);
  bool has_its_share(std::uint32_t gpu) const;
  void look();
  // Whether a proposal is still valid. If the proposal is old, the function classifies the page
  // again.
  bool holds(const proposal& p, std::uint32_t home);
  void start_batch();
  void add_first_touches();
  void add_proposals();
  void add(std::uint64_t page);
  void page_moved(std::uint64_t page);
  void send(picoseconds time, std::uint32_t from, std::uint32_t to, step what, std::uint64_t page,
            std::uint32_t payload);
  std::uint64_t address_of(std::uint64_t page) const { return first_address_ + page * page_bytes_; }
  std::uint32_t host() const { return static_cast<std::uint32_t>(gpus_.size()); }

  static constexpr std::uint32_t data_bytes = 256;  // bytes of data in each message
  // The size of an entry. An entry of a report is a page and its count. An entry of a batch's list
  // is a page.
  static constexpr std::uint32_t entry_bytes = 8;

  machine::griffin rules_;
  picoseconds counting_;
  std::uint64_t look_periods_;
  std::vector<std::uint8_t>& homes_;
  std::uint64_t first_address_;
  std::uint32_t page_bytes_;
  event_queue& queue_;
  fabric& fabric_;
  std::vector<migrating_gpu*> gpus_;
  std::function<void(std::uint32_t, std::uint64_t, bool)> answer_;
  page_classifier classifier_;
  std::vector<page_state> pages_;
  std::vector<std::uint64_t> pages_of_;  // number of pages that each GPU was given
  std::uint64_t given_ = 0;              // number of pages that were given to any GPU
  // The reports of each GPU that are on their way.
  std::vector<std::deque<counted_period>> reports_;
  std::vector<std::uint64_t> seen_;  // pages that were reported since the last classification
  std::uint64_t latest_ = 0;         // latest period that was reported
  std::uint64_t next_look_ = 0;
  std::deque<std::uint64_t> touches_;  // pages that must move because of a first touch
  // for each GPU, proposals for the pages that it has
  std::vector<std::deque<proposal>> proposals_;
  std::vector<std::uint64_t> batch_;  // pages that are moving
  std::uint32_t owner_ = 0;           // the GPU that has these pages
  std::uint32_t answers_ = 0;
  std::uint32_t left_ = 0;  // pages of the batch that have not arrived
  counts counts_;
};

}  // namespace interlace::sim
