// Unified pages that move to the first remote GPU that touches them (MGPUSim's unified memory).
// This file decides which GPU may use a page and which accesses must wait. The file also contains
// the driver on the host, which moves one page at a time.
//
// A page stays where it was placed until another GPU touches it. The page then moves to that GPU
// and stays there. All other GPUs access the page as remote memory. Each step sends messages over
// the machine's links:
//   fault       the GPU tells the host, once for each page; where addresses are translated, the
//               host finds the fault when it walks the page table
//   drain       no GPU sends remote accesses; each answers when it has no remote load in flight
//   shoot down  the owner's compute units stop and its caches are flushed
//   move        the new owner asks the old owner, and the old owner sends the page
//   restart     the old owner resumes, and so do the accesses that wait for the page
//   resume      remote accesses are allowed again
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

// The requests that the driver makes to a GPU.
class migrating_gpu {
 public:
  virtual ~migrating_gpu() = default;
  // Stops sending remote accesses. Calls page_migration::drained when no remote load is in flight.
  // The call can come before this function returns.
  virtual void drain() = 0;
  virtual void resume_remote() = 0;
  // Stops the compute units, forgets the translation of the page at `address` and flushes the
  // caches. Returns the time when the caches are empty.
  virtual picoseconds shoot_down(std::uint64_t address) = 0;
  virtual void restart() = 0;
  // Forgets the translations of the pages at these addresses, and drops the lines of these pages
  // from the first-level caches. Calls griffin::drained when no load of these pages is in flight.
  // The call can come before this function returns.
  virtual void drain_pages(const std::vector<std::uint64_t>& addresses) = 0;
  // Drops all lines of the page from the L2.
  virtual void drop_page(std::uint64_t address) = 0;
  // read_page reads a range of the GPU's memory, and write_page writes a range. Each function
  // returns the time when it has moved the whole range.
  virtual picoseconds read_page(std::uint64_t address, std::uint32_t bytes) = 0;
  virtual picoseconds write_page(std::uint64_t address, std::uint32_t bytes) = 0;
  // Says that the GPU may now access the page at `address`. `waiting` lists the instructions that
  // waited for the page.
  virtual void page_arrived(std::uint64_t address, const std::vector<page_waiter>& waiting) = 0;
};

class page_migration {
 public:
  // The constructor keeps a reference to `homes`, which holds the home of each page, and changes
  // its entries. The first page is at `first_address`. If there are several GPUs, the host must
  // have a link to each of them.
  page_migration(std::vector<std::uint8_t>& homes, std::uint64_t first_address,
                 std::uint32_t page_bytes, event_queue& queue, fabric& links,
                 std::vector<migrating_gpu*> gpus);

  // Whether a GPU may access the page now, in its own memory or remotely.
  bool usable(std::uint32_t gpu, std::uint64_t page) const {
    const state s = page < states_.size() ? states_[page] : state::movable;
    return s == state::stays || (s == state::movable && homes_[page] == gpu);
  }
  // Makes the instruction wait for the page. page_arrived resumes the instruction when the page is
  // usable.
  void wait(std::uint32_t gpu, std::uint64_t page, const page_waiter& w);
  // Notes a fault that the host has found. page_arrived is called when the page is usable.
  void fault_at_host(std::uint32_t gpu, std::uint64_t page);

  // GPU `gpu` reports that it has no remote load in flight.
  void drained(std::uint32_t gpu);
  // Takes a message of kind migration.
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

  // Sends a message for the step `what` about page `page`.
  void send(picoseconds time, std::uint32_t from, std::uint32_t to, step what, std::uint64_t page,
            std::uint32_t payload = 0);
  void send_all(step what);
  void start_next();
  std::uint64_t address_of(std::uint64_t page) const { return first_address_ + page * page_bytes_; }
  std::uint32_t host() const { return static_cast<std::uint32_t>(gpus_.size()); }

  static constexpr std::uint32_t data_bytes = 256;  // bytes of data in each message

  std::vector<std::uint8_t>& homes_;
  std::uint64_t first_address_;
  std::uint32_t page_bytes_;
  event_queue& queue_;
  fabric& fabric_;
  std::vector<migrating_gpu*> gpus_;
  std::vector<state> states_;
  // One map for each GPU.
  std::vector<std::unordered_map<std::uint64_t, std::vector<page_waiter>>> waiting_;
  std::deque<fault> faults_;  // faults that the host knows
  bool busy_ = false;         // whether the fault below is being served
  fault current_;
  std::uint32_t owner_ = 0;     // owner of the page that is being served
  std::uint32_t answers_ = 0;   // number of GPUs that have answered the last message to all GPUs
  std::uint32_t received_ = 0;  // bytes of the page that were received
  picoseconds written_ = 0;     // time when these bytes are in memory
  page_traffic counts_;
};

}  // namespace interlace::sim
