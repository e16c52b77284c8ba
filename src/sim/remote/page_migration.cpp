#include "sim/remote/page_migration.hpp"

#include <algorithm>
#include <utility>

namespace interlace::sim {

page_migration::page_migration(std::vector<std::uint8_t>& homes, std::uint64_t first_address,
                               std::uint32_t page_bytes, event_queue& queue, fabric& links,
                               std::vector<migrating_gpu*> gpus)
    : homes_(homes),
      first_address_(first_address),
      page_bytes_(page_bytes),
      queue_(queue),
      fabric_(links),
      gpus_(std::move(gpus)),
      waiting_(gpus_.size()) {}

void page_migration::wait(std::uint32_t gpu, std::uint64_t page, const page_waiter& w) {
  auto& waiting = waiting_[gpu][page];
  waiting.push_back(w);
  if (waiting.size() == 1) send(queue_.now(), gpu, host(), step::fault, page);
}

void page_migration::fault_at_host(std::uint32_t gpu, std::uint64_t page) {
  faults_.push_back({gpu, page});
  start_next();
}

void page_migration::drained(std::uint32_t gpu) {
  send(queue_.now(), gpu, host(), step::drained, current_.page);
}

void page_migration::send(picoseconds time, std::uint32_t from, std::uint32_t to, step what,
                          std::uint64_t page, std::uint32_t payload) {
  fabric_.send(time, page_message(fabric_, from, to, static_cast<std::uint32_t>(what), page,
                                  payload, counts_));
}

void page_migration::send_all(step what) {
  answers_ = 0;
  for (std::uint32_t g = 0; g < gpus_.size(); ++g) {
    send(queue_.now(), host(), g, what, current_.page);
  }
}

void page_migration::start_next() {
  while (!busy_ && !faults_.empty()) {
    current_ = faults_.front();
    faults_.pop_front();
    if (usable(current_.gpu, current_.page)) {
      send(queue_.now(), host(), current_.gpu, step::arrived, current_.page);
      continue;
    }
    busy_ = true;
    if (states_.size() < homes_.size()) states_.resize(homes_.size(), state::movable);
    states_[current_.page] = state::moving;
    owner_ = homes_[current_.page];
    received_ = 0;
    written_ = 0;
    send_all(step::drain);
  }
}

void page_migration::delivered(const message& m) {
  const auto now = queue_.now();
  const std::uint64_t page = m.address;
  const std::uint32_t all = host();
  switch (static_cast<step>(m.unit)) {
    case step::fault:
      fault_at_host(m.from, page);
      break;
    case step::drain:
      gpus_[m.to]->drain();
      break;
    case step::drained:
      if (++answers_ == all) send(now, host(), owner_, step::shoot_down, page);
      break;
    case step::shoot_down:
      send(std::max(now, gpus_[owner_]->shoot_down(address_of(page))), owner_, host(),
           step::shot_down, page);
      break;
    case step::shot_down:
      send(now, host(), current_.gpu, step::move, page);
      break;
    case step::move:
      send(now, current_.gpu, owner_, step::pull, page);
      break;
    case step::pull: {
      const picoseconds read = gpus_[owner_]->read_page(address_of(page), page_bytes_);
      for (std::uint32_t sent = 0; sent < page_bytes_; sent += data_bytes) {
        send(std::max(now, read), owner_, current_.gpu, step::data, page,
             std::min(data_bytes, page_bytes_ - sent));
      }
      break;
    }
    case step::data:
      written_ =
          std::max({written_, now,
                    gpus_[current_.gpu]->write_page(address_of(page) + received_, m.payload)});
      received_ += m.payload;
      if (received_ == page_bytes_) send(written_, current_.gpu, host(), step::moved, page);
      break;
    case step::moved:
      ++counts_.pages;
      homes_[page] = static_cast<std::uint8_t>(current_.gpu);
      states_[page] = state::stays;
      send(now, host(), owner_, step::restart, page);
      send(now, host(), current_.gpu, step::arrived, page);
      break;
    case step::restart:
      gpus_[owner_]->restart();
      send(now, owner_, host(), step::restarted, page);
      break;
    case step::restarted:
      send_all(step::resume);
      break;
    case step::arrived: {
      std::vector<page_waiter> waiting;
      const auto found = waiting_[m.to].find(page);
      if (found != waiting_[m.to].end()) {
        waiting = std::move(found->second);
        waiting_[m.to].erase(found);
      }
      gpus_[m.to]->page_arrived(address_of(page), waiting);
      break;
    }
    case step::resume:
      gpus_[m.to]->resume_remote();
      send(now, m.to, host(), step::resumed, page);
      break;
    case step::resumed:
      if (++answers_ != all) break;
      busy_ = false;
      start_next();
      break;
  }
}

bool page_migration::empty() const {
  return !busy_ && faults_.empty() &&
         std::all_of(waiting_.begin(), waiting_.end(), [](const auto& w) { return w.empty(); });
}

}  // namespace interlace::sim
