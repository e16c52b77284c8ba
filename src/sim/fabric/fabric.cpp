#include "sim/fabric/fabric.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "interlace/base/errors.hpp"

namespace interlace::sim {

fabric::fabric(const machine::machine& described, event_queue& queue, message_receiver& receiver)
    : fabric(described, std::vector<event_queue*>(described.gpu_count + 1, &queue), receiver) {}

fabric::fabric(const machine::machine& described, std::vector<event_queue*> queues,
               message_receiver& receiver)
    : queues_(std::move(queues)),
      receiver_(receiver),
      count_(described.gpu_count + 1),
      tables_(queues_.size()),
      boxes_(2 * queues_.size() * queues_.size()),
      ledger_(0, {}, 0) {
  for (const machine::link& l : described.links) {
    direction d;
    d.per_byte_q16 = static_cast<picoseconds>(std::llround(65536.0 * 1e12 / l.bytes_per_s));
    d.latency = l.latency_ps;
    d.queue_bytes = l.queue_bytes;
    d.queue_time = (l.queue_bytes * d.per_byte_q16) >> 16U;
    if (l.protocol.store_packets_per_s > 0) {
      d.per_packet_q16 =
          static_cast<picoseconds>(std::llround(65536.0 * 1e12 / l.protocol.store_packets_per_s));
    }
    d.owner = l.a.kind == machine::endpoint_kind::gpu   ? l.a.index
              : l.b.kind == machine::endpoint_kind::gpu ? l.b.index
                                                        : host();
    directions_.push_back(d);
    // A link between two GPUs has an owner at each end.
    if (l.b.kind == machine::endpoint_kind::gpu) d.owner = l.b.index;
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

std::uint32_t fabric::keep(std::uint32_t at, const message& m) {
  table& t = tables_[at];
  if (t.free.empty()) {
    t.messages.push_back(m);
    return static_cast<std::uint32_t>(t.messages.size() - 1);
  }
  const std::uint32_t id = t.free.back();
  t.free.pop_back();
  t.messages[id] = m;
  return id;
}

void fabric::send(picoseconds time, const message& m) {
  const std::uint32_t id = keep(m.from, m);
  message& kept = tables_[m.from].messages[id];
  kept.hop = 0;
  kept.sent = time;
  ledger_.sent(m);
  queues_[m.from]->push(time, event_kind::message_at_link, m.from, id, 0);
}

void fabric::push(std::uint32_t from, std::uint32_t to, const mail& what) {
  const std::uint32_t a = is_of_message(what.kind) ? keep(to, what.what) : what.a;
  // Events in the same queue keep their order. For events in different queues, the number of the
  // sender decides the order.
  const bool same = queues_[from]->goes_with(*queues_[to]);
  queues_[to]->push(what.time, what.kind, what.device, a, what.b,
                    same ? std::uint8_t{0} : static_cast<std::uint8_t>(from + 1));
}

void fabric::pass(std::uint32_t from, std::uint32_t to, picoseconds time, event_kind kind,
                  const message& m) {
  const mail what{time, kind, static_cast<std::uint16_t>(to), 0, 0, m};
  if (!apart_ || from == to) return push(from, to, what);
  tables_[from].earliest = std::min(tables_[from].earliest, time);
  box_to(stretch_, from, to).push_back(what);
}

void fabric::post(std::uint32_t from, std::uint32_t to, picoseconds time, event_kind kind,
                  std::uint32_t device, std::uint32_t a, std::uint64_t b) {
  const mail what{time, kind, static_cast<std::uint16_t>(device), a, b, {}};
  if (!apart_ || from == to) return push(from, to, what);
  tables_[from].earliest = std::min(tables_[from].earliest, time);
  box_to(stretch_, from, to).push_back(what);
}

picoseconds fabric::look_ahead() const {
  picoseconds least = event_queue::never;
  for (const direction& d : directions_) least = std::min(least, d.latency);
  return least;
}

picoseconds fabric::end_stretch() {
  picoseconds earliest = event_queue::never;
  for (table& t : tables_) {
    earliest = std::min(earliest, std::exchange(t.earliest, event_queue::never));
  }
  ++stretch_;
  return earliest;
}

bool fabric::has_mail(std::uint32_t device) const {
  const std::size_t first = ((stretch_ + 1) % 2 * queues_.size() + device) * queues_.size();
  for (std::size_t k = first; k < first + queues_.size(); ++k) {
    if (!boxes_[k].empty()) return true;
  }
  return false;
}

void fabric::receive(std::uint32_t device) {
  for (std::uint32_t from = 0; from < queues_.size(); ++from) {
    box& b = box_to(stretch_ + 1, from, device);
    for (const mail& m : b) push(from, device, m);
    b.clear();
  }
}

void fabric::hold(std::uint32_t at, std::uint32_t way, picoseconds until) {
  if (queues_.front()->goes_with(*queues_.back())) {
    directions_[way].server.hold_until(until);
    return;
  }
  const picoseconds known = queues_[at]->now() + directions_[way].latency;
  if (until <= known) return;
  const std::uint32_t owner = directions_[way].owner;
  post(at, owner, known, event_kind::link_held, owner, way, until);
}

void fabric::hop(std::uint32_t at, std::uint32_t id) {
  message m = tables_[at].messages[id];
  const auto& steps = routes_[m.from * count_ + m.to];
  const step& s = steps[m.hop];
  direction& d = directions_[s.direction];
  const picoseconds now = queues_[at]->now();
  const picoseconds busy = duration(d, m.wire);
  const bool limited = d.per_packet_q16 != 0 && stores(m);
  const picoseconds ready = limited ? reserve_packets(d, now, m.packets) : now;
  const picoseconds start = d.server.reserve(ready, busy);
  ledger_.carried(s.direction, m.wire, start, busy);
  if (m.hop == 0) {
    // The table keeps the message until the event `message_departed`.
    queues_[at]->push(start, event_kind::message_departed, m.from, id, 0);
  } else {
    tables_[at].free.push_back(id);
    // If the buffer before this link is full, the link that feeds the buffer stops until there is
    // room.
    if (start > now + d.queue_time) hold(at, steps[m.hop - 1U].direction, start - d.queue_time);
  }
  m.tail = std::max(start + busy, m.tail) + d.latency;
  if (m.hop + 1U == steps.size()) {
    if (m.kind == message_kind::copy_segment && m.lanes != 0) receiver_.will_arrive(at, m.tail, m);
    return pass(at, m.to, m.tail, event_kind::message_delivered, m);
  }
  ++m.hop;
  m.tail += s.pass_through;
  pass(at, directions_[steps[m.hop].direction].owner, start + d.latency + s.pass_through,
       event_kind::message_at_link, m);
}

void fabric::handle(const event& e) {
  if (e.kind == event_kind::link_held) {
    directions_[e.a].server.hold_until(e.b);
    return;
  }
  if (e.kind == event_kind::link_answered) {
    reserve_packets(directions_[e.a], queues_[e.device]->now(), e.b);
    return;
  }
  if (e.kind == event_kind::message_at_link) return hop(e.device, e.a);
  table& t = tables_[e.device];
  // The message is copied, because the receiver may send a message, and a new message can
  // reallocate the table.
  const message m = t.messages[e.a];
  if (e.kind == event_kind::message_departed) {
    t.free.push_back(e.a);
    return receiver_.departed(m);
  }
  if (m.hop == gone) {
    throw model_error("a message from gpu" + std::to_string(m.from) + " to gpu" +
                      std::to_string(m.to) + " was delivered twice");
  }
  t.messages[e.a].hop = gone;
  t.free.push_back(e.a);
  ledger_.delivered(m, queues_[e.device]->now());
  if (stores(m)) answer(m);
  receiver_.delivered(m);
}

// An answer counts as a packet on each link of the way back. It takes no bytes, because the bytes
// of answers give way to other traffic. Nothing waits for an answer.
void fabric::answer(const message& m) {
  const auto& steps = routes_[m.to * count_ + m.from];
  picoseconds time = queues_[m.to]->now();
  for (std::size_t k = 0; k < steps.size(); ++k) {
    direction& d = directions_[steps[k].direction];
    if (k == 0) {
      if (d.per_packet_q16 == 0) return;
      reserve_packets(d, time, m.packets);
    } else {
      post(m.to, d.owner, time, event_kind::link_answered, d.owner, steps[k].direction, m.packets);
    }
    time += d.latency + steps[k].pass_through;
  }
}

void fabric::check_delivered() const {
  ledger_.check([this](std::size_t d) { return names_[d]; });
}

}  // namespace interlace::sim
