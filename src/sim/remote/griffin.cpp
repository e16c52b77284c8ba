#include "sim/remote/griffin.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace interlace::sim {

namespace {
bool changes_home(page_class kind) {
  return kind == page_class::mostly_dedicated || kind == page_class::owner_shifting;
}
}  // namespace

griffin::griffin(const machine::gpu& described, std::vector<std::uint8_t>& homes,
                 std::uint64_t first_address, std::uint32_t page_bytes, event_queue& queue,
                 fabric& links, std::vector<migrating_gpu*> gpus,
                 std::function<void(std::uint32_t, std::uint64_t, bool)> answer)
    : rules_(described.griffin),
      counting_(static_cast<picoseconds>(
          std::llround(described.griffin.counting_clocks * 1e12 / described.clock_hz))),
      look_periods_(described.griffin.look_periods),
      homes_(homes),
      first_address_(first_address),
      page_bytes_(page_bytes),
      queue_(queue),
      fabric_(links),
      gpus_(std::move(gpus)),
      answer_(std::move(answer)),
      classifier_(rules_, static_cast<std::uint32_t>(gpus_.size())),
      pages_of_(gpus_.size(), 0),
      reports_(gpus_.size()),
      next_look_(look_periods_),
      proposals_(gpus_.size()) {}

griffin::page_state& griffin::at(std::uint64_t page) {
  if (page >= pages_.size()) pages_.resize(homes_.size());
  return pages_[page];
}

void griffin::give(std::uint64_t page, std::uint32_t gpu) {
  page_state& p = at(page);
  if (p.given) {
    --pages_of_[p.to];
    ++counts_.again;
  } else {
    ++given_;
  }
  ++pages_of_[gpu];
  p.given = true;
  p.to = gpu;
}

bool griffin::has_its_share(std::uint32_t gpu) const {
  return pages_of_[gpu] * gpus_.size() > given_;
}

// --- Touches

walk_end griffin::walked(std::uint32_t gpu, std::uint64_t page) {
  page_state& p = at(page);
  if (p.now == state::moving) {
    p.waiting.push_back(gpu);
    return walk_end::taken;
  }
  if (homes_[page] == gpu) {
    if (p.now != state::placed) give(page, gpu);
    p.now = state::placed;
    return walk_end::kept;
  }
  if (p.now == state::placed) return walk_end::once;
  if (p.now == state::untouched && has_its_share(gpu)) {
    p.now = state::delayed;
    ++counts_.delayed;
    return walk_end::once;
  }
  p.now = state::moving;
  p.waiting.push_back(gpu);
  give(page, gpu);
  touches_.push_back(page);
  start_batch();
  return walk_end::taken;
}

// --- Classification

void griffin::report(std::uint32_t gpu, std::uint64_t period, std::vector<page_access> counted) {
  const auto bytes = static_cast<std::uint32_t>(counted.size() * entry_bytes);
  reports_[gpu].push_back({period, std::move(counted)});
  send(queue_.now(), gpu, host(), step::report, 0, bytes);
}

void griffin::look() {
  for (const std::uint64_t page : seen_) {
    page_state& p = at(page);
    const std::uint32_t home = homes_[page];
    const auto [kind, gpu] = classifier_.classify(page, home, latest_);
    if (p.now != state::placed || p.proposed || gpu == home || !changes_home(kind)) continue;
    p.proposed = true;
    proposals_[home].push_back({page, gpu, latest_});
  }
  seen_.clear();
  next_look_ = latest_ + look_periods_;
}

bool griffin::holds(const proposal& p, std::uint32_t home) {
  at(p.page).proposed = false;
  if (latest_ < p.period + look_periods_) return true;
  const auto [kind, gpu] = classifier_.classify(p.page, home, latest_);
  return gpu == p.to && changes_home(kind);
}

// --- Batches

void griffin::start_batch() {
  if (!batch_.empty()) return;
  add_first_touches();
  if (batch_.empty()) add_proposals();
  if (batch_.empty()) return;
  ++counts_.batches;
  answers_ = 0;
  left_ = static_cast<std::uint32_t>(batch_.size());
  for (std::uint32_t g = 0; g < gpus_.size(); ++g) {
    send(queue_.now(), host(), g, step::block, 0, left_ * entry_bytes);
  }
}

void griffin::add(std::uint64_t page) {
  page_state& p = at(page);
  p.now = state::moving;
  p.received = 0;
  p.written = 0;
  batch_.push_back(page);
}

void griffin::add_first_touches() {
  if (touches_.empty()) return;
  owner_ = homes_[touches_.front()];
  for (auto t = touches_.begin(); t != touches_.end() && batch_.size() < rules_.batch_pages;) {
    if (homes_[*t] != owner_) {
      ++t;
      continue;
    }
    add(*t);
    t = touches_.erase(t);
  }
}

void griffin::add_proposals() {
  while (batch_.empty()) {
    const auto most =
        std::max_element(proposals_.begin(), proposals_.end(),
                         [](const auto& x, const auto& y) { return x.size() < y.size(); });
    if (most->empty()) return;
    owner_ = static_cast<std::uint32_t>(most - proposals_.begin());
    while (!most->empty() && batch_.size() < rules_.batch_pages) {
      const proposal p = most->front();
      most->pop_front();
      if (!holds(p, owner_)) continue;
      give(p.page, p.to);
      add(p.page);
    }
  }
}

void griffin::drained(std::uint32_t gpu, picoseconds when) {
  send(std::max(queue_.now(), when), gpu, host(), step::blocked, 0, 0);
}

void griffin::page_moved(std::uint64_t page) {
  page_state& p = at(page);
  ++counts_.moved.pages;
  homes_[page] = static_cast<std::uint8_t>(p.to);
  p.now = state::placed;
  const std::vector<std::uint32_t> waiting = std::exchange(p.waiting, {});
  for (const std::uint32_t gpu : waiting) answer_(gpu, page, gpu == p.to);
  if (--left_ != 0) return;
  batch_.clear();
  start_batch();
}

// --- Messages

void griffin::send(picoseconds time, std::uint32_t from, std::uint32_t to, step what,
                   std::uint64_t page, std::uint32_t payload) {
  fabric_.send(time, page_message(fabric_, from, to, static_cast<std::uint32_t>(what), page,
                                  payload, counts_.moved));
}

void griffin::delivered(const message& m) {
  const std::uint64_t page = m.address;
  switch (static_cast<step>(m.unit)) {
    case step::report: {
      const counted_period counted = std::move(reports_[m.from].front());
      reports_[m.from].pop_front();
      latest_ = std::max(latest_, counted.period);
      classifier_.count(m.from, counted.period, counted.pages, seen_);
      if (latest_ < next_look_) break;
      look();
      start_batch();
      break;
    }
    case step::block: {
      std::vector<std::uint64_t> addresses;
      for (const std::uint64_t moving : batch_) addresses.push_back(address_of(moving));
      gpus_[m.to]->drain_pages(addresses);
      break;
    }
    case step::blocked:
      if (++answers_ != host()) break;
      for (std::uint32_t g = 0; g < host(); ++g) {
        const auto own = std::count_if(batch_.begin(), batch_.end(),
                                       [&](std::uint64_t p) { return at(p).to == g; });
        if (own == 0) continue;
        send(queue_.now(), host(), g, step::move, 0, static_cast<std::uint32_t>(own) * entry_bytes);
      }
      break;
    case step::move:
      for (const std::uint64_t moving : batch_) {
        if (at(moving).to == m.to) send(queue_.now(), m.to, owner_, step::pull, moving, 0);
      }
      break;
    case step::pull: {
      const picoseconds read =
          std::max(queue_.now(), gpus_[owner_]->read_page(address_of(page), page_bytes_));
      gpus_[owner_]->drop_page(address_of(page));
      for (std::uint32_t sent = 0; sent < page_bytes_; sent += data_bytes) {
        send(read, owner_, m.from, step::data, page, std::min(data_bytes, page_bytes_ - sent));
      }
      break;
    }
    case step::data: {
      page_state& p = at(page);
      p.written = std::max({p.written, queue_.now(),
                            gpus_[m.to]->write_page(address_of(page) + p.received, m.payload)});
      p.received += m.payload;
      if (p.received == page_bytes_) send(p.written, m.to, host(), step::moved, page, 0);
      break;
    }
    case step::moved:
      page_moved(page);
      break;
  }
}

bool griffin::empty() const {
  return batch_.empty() && touches_.empty() &&
         std::all_of(reports_.begin(), reports_.end(), [](const auto& r) { return r.empty(); }) &&
         std::all_of(pages_.begin(), pages_.end(),
                     [](const page_state& p) { return p.waiting.empty(); });
}

}  // namespace interlace::sim
