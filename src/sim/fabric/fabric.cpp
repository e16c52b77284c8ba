#include "sim/fabric/fabric.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "interlace/base/errors.hpp"

namespace interlace::sim {

fabric::fabric(const machine::machine& described, event_queue& queue, message_receiver& receiver)
    : queue_(queue), receiver_(receiver), count_(described.gpu_count + 1), ledger_(0, {}, 0) {
  for (const machine::link& l : described.links) {
    direction d;
    d.per_byte_q16 = static_cast<picoseconds>(std::llround(65536.0 * 1e12 / l.bytes_per_s));
    d.latency = l.latency_ps;
    d.queue_bytes = l.queue_bytes;
    d.queue_time = (l.queue_bytes * d.per_byte_q16) >> 16U;
    directions_.push_back(d);
    directions_.push_back(d);
    const std::string a = machine::name(described, l.a);
    const std::string b = machine::name(described, l.b);
    for (const auto& [from, to] : {std::pair{&a, &b}, std::pair{&b, &a}}) {
      names_.push_back(*from);
      names_.back().append(" -> ").append(*to);
    }
  }
  const auto place = [&](std::uint32_t end) {
    return end == described.gpu_count ? machine::endpoint{machine::endpoint_kind::host, 0}
                                      : machine::endpoint{machine::endpoint_kind::gpu, end};
  };
  routes_.resize(std::size_t{count_} * count_);
  protocols_.resize(routes_.size());
  for (std::uint32_t from = 0; from < count_; ++from) {
    for (std::uint32_t to = 0; to < count_; ++to) {
      if (from == to) continue;
      const auto way = machine::route(described, place(from), place(to));
      if (!way) continue;
      auto& steps = routes_[from * count_ + to];
      for (const machine::hop& h : *way) {
        const machine::link& l = described.links[h.link];
        const machine::endpoint behind = h.forward ? l.b : l.a;
        step s;
        s.direction = static_cast<std::uint32_t>(h.link * 2 + (h.forward ? 0 : 1));
        if (behind.kind == machine::endpoint_kind::network_switch) {
          s.pass_through = described.switches[behind.index].latency_ps;
        }
        steps.push_back(s);
      }
      protocols_[from * count_ + to] = described.links[way->front().link].protocol;
    }
  }
  std::vector<std::vector<std::uint32_t>> ways;
  for (const auto& steps : routes_) {
    auto& way = ways.emplace_back();
    for (const step& s : steps) way.push_back(s.direction);
  }
  ledger_ = ledger(count_, std::move(ways), directions_.size());
}

const machine::protocol& fabric::protocol(std::uint32_t from, std::uint32_t to) const {
  return protocols_[from * count_ + to];
}

void fabric::send(picoseconds time, const message& m) {
  std::uint32_t id = 0;
  if (free_.empty()) {
    id = static_cast<std::uint32_t>(messages_.size());
    messages_.push_back(m);
  } else {
    id = free_.back();
    free_.pop_back();
    messages_[id] = m;
  }
  messages_[id].hop = 0;
  messages_[id].sent = time;
  ledger_.sent(m);
  queue_.push(time, event_kind::message_at_link, m.from, id, 0);
}

void fabric::hop(std::uint32_t id) {
  message& m = messages_[id];
  const auto& steps = routes_[m.from * count_ + m.to];
  const step& s = steps[m.hop];
  direction& d = directions_[s.direction];
  const picoseconds busy = duration(d, m.wire);
  const picoseconds start = d.server.reserve(queue_.now(), busy);
  ledger_.carried(s.direction, m.wire, start, busy);
  if (m.hop == 0) {
    queue_.push(start, event_kind::message_departed, m.from, id, 0);
  } else if (start > queue_.now() + d.queue_time) {
    // The buffer before this link is full, so the link that feeds the buffer stops until there is
    // room.
    directions_[steps[m.hop - 1U].direction].server.hold_until(start - d.queue_time);
  }
  if (m.hop + 1U == steps.size()) {
    queue_.push(std::max(start + busy, m.tail) + d.latency, event_kind::message_delivered, m.to, id,
                0);
  } else {
    ++m.hop;
    m.tail = std::max(start + busy, m.tail) + d.latency + s.pass_through;
    queue_.push(start + d.latency + s.pass_through, event_kind::message_at_link, m.from, id, 0);
  }
}

void fabric::handle(const event& e) {
  if (e.kind == event_kind::message_at_link) {
    hop(e.a);
  } else if (e.kind == event_kind::message_departed) {
    // a copy, because the receiver may send, and a new message can reallocate the table
    const message m = messages_[e.a];
    receiver_.departed(m);
  } else {
    const message m = messages_[e.a];
    if (m.hop == gone) {
      throw model_error("a message from gpu" + std::to_string(m.from) + " to gpu" +
                        std::to_string(m.to) + " was delivered twice");
    }
    messages_[e.a].hop = gone;
    free_.push_back(e.a);
    ledger_.delivered(m, queue_.now());
    receiver_.delivered(m);
  }
}

void fabric::check_delivered() const {
  ledger_.check([this](std::size_t d) { return names_[d]; });
}

}  // namespace interlace::sim
