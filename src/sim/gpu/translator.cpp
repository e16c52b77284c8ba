#include "sim/gpu/translator.hpp"

#include <algorithm>
#include <utility>

#include "sim/fabric/protocol.hpp"

namespace interlace::sim {

translator::translator(std::uint32_t index, const machine::tlb& config, std::uint32_t buffers,
                       event_queue& queue, fabric& links)
    : index_(index),
      config_(config),
      page_shift_(static_cast<std::uint32_t>(__builtin_ctz(config.page_bytes))),
      queue_(queue),
      fabric_(links),
      buffers_(buffers, buffer_state{tlb(config.l1_entries, config.l1_ways), {}, {}}),
      l2_(config.l2_entries, config.l2_ways) {}

translator::miss_entry* translator::under_way(buffer_state& b, std::uint64_t page) {
  const auto found = std::find_if(b.misses.begin(), b.misses.end(),
                                  [page](const miss_entry& m) { return m.page == page; });
  return found == b.misses.end() ? nullptr : &*found;
}

translator::answer translator::miss(std::uint32_t buffer, std::uint64_t page) {
  buffer_state& b = buffers_[buffer];
  const bool asked = under_way(b, page) != nullptr;
  if (!asked && b.misses.size() == config_.l1_mshrs) return answer::no_entry;
  ++counts_.l1_misses;
  if (!asked) {
    b.misses.push_back({page, {}});
    ask_l2(buffer, page);
  }
  return answer::under_way;
}

void translator::wait(std::uint32_t buffer, std::uint64_t page, const page_waiter& w) {
  buffer_state& b = buffers_[buffer];
  if (miss_entry* m = under_way(b, page); m != nullptr) {
    m->waiting.push_back(w);
  } else {
    b.stalled_for_entry.push_back({page, w});
  }
}

std::vector<page_waiter> translator::answered(std::uint32_t buffer, std::uint64_t page) {
  buffer_state& b = buffers_[buffer];
  miss_entry* m = under_way(b, page);
  std::vector<page_waiter> ready = std::move(m->waiting);
  b.misses.erase(b.misses.begin() + (m - b.misses.data()));
  // The page goes into the L1 TLB only if the L2 TLB has it. The L2 TLB lacks the page if the
  // answer was for one use only, or if the page has moved in the meantime.
  if (l2_.find(page)) b.entries.insert(page);
  while (!b.stalled_for_entry.empty()) {
    const stalled s = b.stalled_for_entry.front();
    const answer found = look_up(buffer, s.page);
    if (found == answer::no_entry) break;
    b.stalled_for_entry.pop_front();
    if (found == answer::there) {
      ready.push_back(s.who);
    } else {
      wait(buffer, s.page, s.who);
    }
  }
  return ready;
}

void translator::ask_l2(std::uint32_t buffer, std::uint64_t page) {
  if (l2_.find(page)) {
    ++counts_.l2_hits;
    queue_.push(queue_.now() + config_.l2_latency_ps, event_kind::page_translated,
                static_cast<std::uint16_t>(index_), buffer, page);
    return;
  }
  auto found = walks_.find(page);
  if (found == walks_.end()) {
    if (walks_.size() == config_.l2_mshrs) {
      stalled_.push_back({buffer, page});
      return;
    }
    found = walks_.emplace(page, walk{}).first;
    found->second.asked = queue_.now() + config_.l2_latency_ps / 2;
    ask_host(found->second.asked, page);
  }
  ++counts_.l2_misses;
  found->second.waiting.push_back(buffer);
}

void translator::ask_host(picoseconds time, std::uint64_t page) {
  const std::uint32_t host = fabric_.host();
  message m;
  m.kind = message_kind::translation_request;
  m.from = static_cast<std::uint8_t>(index_);
  m.to = static_cast<std::uint8_t>(host);
  m.address = page;
  m.wire = read_request_bytes(fabric_.protocol(index_, host));
  ++counts_.walks;
  counts_.wire += m.wire;
  fabric_.send(time, m);
}

void translator::walked(std::uint64_t page, bool kept) {
  const auto found = walks_.find(page);
  const walk w = std::move(found->second);
  walks_.erase(found);
  counts_.walk_latency += queue_.now() - w.asked;
  if (kept) l2_.insert(page);
  const picoseconds back = queue_.now() + config_.l2_latency_ps - config_.l2_latency_ps / 2;
  for (const std::uint32_t buffer : w.waiting) {
    queue_.push(back, event_kind::page_translated, static_cast<std::uint16_t>(index_), buffer,
                page);
  }
  std::deque<l1_request> again;
  again.swap(stalled_);
  for (const l1_request& r : again) ask_l2(r.buffer, r.page);
}

void translator::shoot_down(std::uint64_t page) {
  l2_.erase(page);
  for (buffer_state& b : buffers_) b.entries.erase(page);
}

bool translator::empty() const {
  return walks_.empty() && stalled_.empty() &&
         std::all_of(buffers_.begin(), buffers_.end(), [](const buffer_state& b) {
           return b.misses.empty() && b.stalled_for_entry.empty();
         });
}

}  // namespace interlace::sim
