#include "sim/remote/page_port.hpp"

#include <algorithm>
#include <utility>

namespace interlace::sim {

page_port::page_port(gpu& of, event_queue& queue, bool by_accesses)
    : page_rules(by_accesses), gpu_(of), queue_(queue) {}

// --- Accesses of the compute units

bool page_port::may_access(page_waiter who, std::uint64_t line) {
  if (line < gpu_.addresses().unified_slot()) return true;
  const std::uint64_t page = number_of(line);
  if (migration_->usable(gpu_.index(), page)) return true;
  migration_->wait(gpu_.index(), page, who);
  return false;
}

void page_port::accessed(std::uint64_t line) {
  if (line < gpu_.addresses().unified_slot()) return;
  const std::uint64_t period = queue_.now() / griffin_->counting_period();
  if (period != counting_period_) {
    auto counted = accessed_.take(griffin_->counted_pages());
    if (!counted.empty()) griffin_->report(gpu_.index(), counting_period_, std::move(counted));
    counting_period_ = period;
  }
  accessed_.access(number_of(line));
}

bool page_port::leaves(const message& request) {
  if (draining_) {
    held_requests_.push_back(request);
    return false;
  }
  ++reads_under_way_;
  if (griffin_ != nullptr) {
    ++page_reads_[first_of_page(line_access::unpack(request.address).line())];
  }
  return true;
}

void page_port::came_back(std::uint64_t line) {
  if (--reads_under_way_ == 0 && draining_) migration_->drained(gpu_.index());
  if (griffin_ == nullptr) return;
  const auto found = page_reads_.find(first_of_page(line));
  if (--found->second == 0) page_reads_.erase(found);
  if (!draining_pages_.empty()) check_drained();
}

const char* page_port::left() const {
  if (!draining_pages_.empty() || !page_reads_.empty()) return "pages that are drained";
  return held_requests_.empty() ? nullptr : "requests that the move of a page held back";
}

// --- Steps of the driver

void page_port::drain() {
  draining_ = true;
  gpu_.hold_stores();
  if (reads_under_way_ == 0) migration_->drained(gpu_.index());
}

void page_port::resume_remote() {
  draining_ = false;
  for (const message& m : held_requests_) {
    ++reads_under_way_;
    gpu_.leave(queue_.now(), m);
  }
  held_requests_.clear();
  gpu_.release_stores();
}

picoseconds page_port::shoot_down(std::uint64_t address) {
  gpu_.stop();
  gpu_.forget_translation(address);
  gpu_.invalidate_l1s();
  return std::max(gpu_.stores_arrived(), gpu_.second_level().flush(queue_.now()));
}

void page_port::drain_pages(const std::vector<std::uint64_t>& addresses) {
  draining_pages_ = addresses;
  for (const std::uint64_t page : addresses) {
    gpu_.forget_translation(page);
    gpu_.erase_from_l1s(page, gpu_.addresses().page_bytes);
  }
  check_drained();
}

void page_port::check_drained() {
  bool own = false;
  for (const std::uint64_t page : draining_pages_) {
    if (page_reads_.contains(page)) return;
    own = own || gpu_.addresses().owner(page) == gpu_.index();
  }
  draining_pages_.clear();
  // Accesses to the GPU's own memory are not tracked one by one. The wait is the longest time that
  // such an access can take.
  const machine::gpu& config = gpu_.config();
  const picoseconds local = config.l2.hit_latency_ps + config.dram.latency_ps;
  griffin_->drained(gpu_.index(),
                    own ? std::max(gpu_.stores_arrived(), queue_.now() + local) : queue_.now());
}

void page_port::drop_page(std::uint64_t address) {
  gpu_.second_level().drop(address, gpu_.addresses().page_bytes);
}

picoseconds page_port::read_page(std::uint64_t address, std::uint32_t bytes) {
  const picoseconds at_bank = queue_.now() + gpu_.port_to_l2();
  return gpu_.second_level().stream_out(at_bank, address, bytes) + gpu_.config().dram.latency_ps +
         gpu_.port_to_l2();
}

picoseconds page_port::write_page(std::uint64_t address, std::uint32_t bytes) {
  return gpu_.second_level().stream_in(queue_.now() + gpu_.port_to_l2(), address, bytes);
}

void page_port::page_arrived(std::uint64_t address, const std::vector<page_waiter>& waiting) {
  gpu_.learn_translation(address);
  for (const page_waiter& w : waiting) gpu_.issue_waiting(w);
}

}  // namespace interlace::sim
