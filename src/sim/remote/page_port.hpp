// The part of a GPU that helps to move pages of unified memory. It carries out the requests of the
// driver (page_migration or griffin). It also holds those accesses of the GPU that must wait.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "sim/engine/event_queue.hpp"
#include "sim/gpu/gpu.hpp"
#include "sim/gpu/remote_accesses.hpp"
#include "sim/remote/access_counters.hpp"
#include "sim/remote/griffin.hpp"
#include "sim/remote/page_migration.hpp"

namespace interlace::sim {

class page_port final : public page_rules, public migrating_gpu {
 public:
  // If `by_accesses` is true, the driver moves pages by access counts, and this object counts
  // accesses.
  page_port(gpu& of, event_queue& queue, bool by_accesses);
  // Sets the driver. Call this function before anything runs.
  void moved_by(page_migration* driver) { migration_ = driver; }
  void moved_by(griffin* driver) { griffin_ = driver; }

  bool may_access(page_waiter who, std::uint64_t line) override;
  void accessed(std::uint64_t line) override;
  bool leaves(const message& request) override;
  void came_back(std::uint64_t line) override;
  const char* left() const override;

  void drain() override;
  void resume_remote() override;
  picoseconds shoot_down(std::uint64_t address) override;
  void restart() override { gpu_.go_on(); }
  void drain_pages(const std::vector<std::uint64_t>& addresses) override;
  void drop_page(std::uint64_t address) override;
  picoseconds read_page(std::uint64_t address, std::uint32_t bytes) override;
  picoseconds write_page(std::uint64_t address, std::uint32_t bytes) override;
  void page_arrived(std::uint64_t address, const std::vector<page_waiter>& waiting) override;

 private:
  void check_drained();
  std::uint64_t number_of(std::uint64_t line) const {
    return (line - gpu_.addresses().unified_slot()) / gpu_.addresses().page_bytes;
  }
  std::uint64_t first_of_page(std::uint64_t line) const {
    return line / gpu_.addresses().page_bytes * gpu_.addresses().page_bytes;
  }

  gpu& gpu_;
  event_queue& queue_;
  // The driver that moves pages; null if `griffin_` moves them.
  page_migration* migration_ = nullptr;
  griffin* griffin_ = nullptr;
  access_counters accessed_;  // counts of the current period
  std::uint64_t counting_period_ = 0;
  std::vector<std::uint64_t> draining_pages_;  // addresses of the pages that are being drained
  // For each page address, the number of remote loads in flight.
  std::unordered_map<std::uint64_t, std::uint32_t> page_reads_;
  bool draining_ = false;  // if true, no remote access may leave
  std::uint64_t reads_under_way_ = 0;
  std::vector<message> held_requests_;  // requests that are held until remote accesses may leave
};

// The page ports of all GPUs. The constructor makes the GPUs use these ports.
class page_ports {
 public:
  page_ports(const std::vector<gpu*>& gpus, event_queue& queue, bool by_accesses) {
    ports_.reserve(gpus.size());
    for (gpu* g : gpus) g->move_pages(&ports_.emplace_back(*g, queue, by_accesses));
  }
  template <class Driver>
  void moved_by(Driver* driver) {
    for (page_port& p : ports_) p.moved_by(driver);
  }
  std::vector<migrating_gpu*> all() {
    std::vector<migrating_gpu*> found;
    for (page_port& p : ports_) found.push_back(&p);
    return found;
  }

 private:
  std::vector<page_port> ports_;
};

}  // namespace interlace::sim
