// Unified pages that move to the first GPU which touches them from afar (MGPUSim's unified memory):
// who may use a page, who waits for one, and the driver on the host, which moves one at a time.
//
// A page is where it was placed until another GPU touches it; that GPU gets it, and then it stays,
// so that all others reach it as remote memory. Each step is messages over the machine's links:
//
//   fault       the GPU tells the host, unless it has told of the page before; where addresses are
//               translated, the host finds it when it walks the page table
//   drain       no GPU sends remote accesses; each answers when no remote load is under way
//   shoot down  the owner's compute units stop and its caches are flushed
//   move        the new owner asks the old one, which reads the page and sends it
//   restart     the old owner goes on, and who waits for the page
//   resume      remote accesses go on
#pragma once

#include <cstdint>
#include <deque>
#include <unordered_map>
#include <vector>

#include "sim/engine/event_queue.hpp"
#include "sim/fabric/fabric.hpp"
#include "sim/fabric/message.hpp"
#include "sim/gpu/page_waiter.hpp"
#include "sim/remote/page_message.hpp"

namespace interlace::sim {

// What a GPU does for it.
class migrating_gpu {
 public:
  virtual ~migrating_gpu() = default;
  // No remote access leaves from now on; page_migration::drained is called when no remote load is
  // under way, which may be at once.
  virtual void drain() = 0;
  virtual void resume_remote() = 0;
  // Stops its compute units, and forgets where the page at `address` is; flushes its caches and
  // returns when they are empty.
  virtual picoseconds shoot_down(std::uint64_t address) = 0;
  virtual void restart() = 0;
  // Forgets where the pages at these addresses are, and what its first-level caches have of them;
  // griffin::drained is called when no load of them that has left it is under way, which may be at
  // once.
  virtual void drain_pages(const std::vector<std::uint64_t>& addresses) = 0;
  // Its L2 has no line of the page any more.
  virtual void drop_page(std::uint64_t address) = 0;
  // A stretch of its memory is read, or written; returns when it has been.
  virtual picoseconds read_page(std::uint64_t address, std::uint32_t bytes) = 0;
  virtual picoseconds write_page(std::uint64_t address, std::uint32_t bytes) = 0;
  // It may access the page at `address`, for which these have waited.
  virtual void page_arrived(std::uint64_t address, const std::vector<page_waiter>& waiting) = 0;
};

class page_migration {
 public:
  // `homes` of the pages, which this changes; the first page is at `first_address`. The host has a
  // link to each GPU where there are several.
  page_migration(std::vector<std::uint8_t>& homes, std::uint64_t first_address,
                 std::uint32_t page_bytes, event_queue& queue, fabric& links,
                 std::vector<migrating_gpu*> gpus);

  // Whether a GPU may access the page now, in its own memory or remotely.
  bool usable(std::uint32_t gpu, std::uint64_t page) const {
    const state s = page < states_.size() ? states_[page] : state::movable;
    return s == state::stays || (s == state::movable && homes_[page] == gpu);
  }
  // The instruction goes on, by page_arrived, when the page is usable.
  void wait(std::uint32_t gpu, std::uint64_t page, const page_waiter& w);
  // The same, known at the host: page_arrived says when the page is usable.
  void fault_at_host(std::uint32_t gpu, std::uint64_t page);

  // GPU `gpu` has no remote load under way.
  void drained(std::uint32_t gpu);
  // A message of kind migration.
  void delivered(const message& m);

  const page_traffic& counted() const { return counts_; }
  bool empty() const;

 private:
  enum class state : std::uint8_t { movable, moving, stays };
  enum class step : std::uint8_t {
    fault,
    drain,
    drained,
    shoot_down,
    shot_down,
    move,
    pull,
    data,
    moved,
    restart,
    restarted,
    arrived,
    resume,
    resumed,
  };
  struct fault {
    std::uint32_t gpu = 0;
    std::uint64_t page = 0;
  };

  // A message of this step about the page that moves, or about `page`.
  void send(picoseconds time, std::uint32_t from, std::uint32_t to, step what, std::uint64_t page,
            std::uint32_t payload = 0);
  void send_all(step what);
  void start_next();
  std::uint64_t address_of(std::uint64_t page) const { return first_address_ + page * page_bytes_; }
  std::uint32_t host() const { return static_cast<std::uint32_t>(gpus_.size()); }

  static constexpr std::uint32_t data_bytes = 256;  // of a message

  std::vector<std::uint8_t>& homes_;
  std::uint64_t first_address_;
  std::uint32_t page_bytes_;
  event_queue& queue_;
  fabric& fabric_;
  std::vector<migrating_gpu*> gpus_;
  std::vector<state> states_;
  std::vector<std::unordered_map<std::uint64_t, std::vector<page_waiter>>> waiting_;  // [gpu]
  std::deque<fault> faults_;  // that the host has been told of
  bool busy_ = false;         // with the one that follows
  fault current_;
  std::uint32_t owner_ = 0;     // of its page
  std::uint32_t answers_ = 0;   // of GPUs to a message that went to all
  std::uint32_t received_ = 0;  // bytes of the page
  picoseconds written_ = 0;     // when they are in memory
  page_traffic counts_;
};

}  // namespace interlace::sim
