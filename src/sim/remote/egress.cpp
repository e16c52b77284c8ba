#include "sim/remote/egress.hpp"

#include <algorithm>
#include <string>

#include "interlace/base/errors.hpp"
#include "machine/route.hpp"
#include "sim/fabric/protocol.hpp"
#include "sim/fabric/store_packets.hpp"
#include "sim/gpu/count_stores.hpp"

namespace interlace::sim {

namespace {

bool packs(store_path p) { return p == store_path::packed || p == store_path::configured; }

}  // namespace

void check_store_path(const machine::machine& described, store_path path) {
  if (!packs(path)) return;
  const machine::remote_write_queue& q = described.gpu.write_queue;
  const std::uint32_t least = described.gpu.l2.line_bytes + q.subheader_bytes;
  for (std::uint32_t from = 0; from < described.gpu_count; ++from) {
    for (std::uint32_t to = 0; to < described.gpu_count; ++to) {
      if (from == to) continue;
      const auto way = machine::route(described, {machine::endpoint_kind::gpu, from},
                                      {machine::endpoint_kind::gpu, to});
      if (!way) continue;
      const machine::link& l = described.links[way->front().link];
      const std::uint32_t payload = finepack_payload_bytes(q, l.protocol);
      if (payload >= least) continue;
      throw usage_error("packets of protocol " + l.protocol_name + " carry " +
                        std::to_string(payload) + " bytes on machine " + described.name +
                        ", and a line with its sub-header has " + std::to_string(least) +
                        ": raise max_payload_bytes or take another mechanism");
    }
  }
}

egress::egress(std::uint32_t index, const machine::gpu& config, std::uint32_t devices,
               event_queue& queue, fabric& links, store_counts& counts)
    : index_(index),
      settings_(config.write_queue),
      joined_bytes_(config.remote_store_bytes != 0 ? config.remote_store_bytes
                                                   : config.l2.line_bytes),
      combined_lines_(config.gps.queue_lines),
      line_bytes_(config.l2.line_bytes),
      sector_bytes_(config.l2.sector_bytes),
      queue_(queue),
      fabric_(links),
      destinations_(devices),
      port_waiting_(links.ports(), 0),
      given_back_(devices),
      counts_(counts) {
  for (std::uint32_t to = 0; to < devices; ++to) {
    if (to != index && links.reaches(index, to)) destinations_[to].port = links.port(index, to);
  }
}

void egress::begin(store_path path) {
  if (path == path_) return;
  path_ = path;
  for (destination& d : destinations_) {
    d.packing.reset();
    d.combining.reset();
  }
}

// The first store to a destination creates the destination's queue.
egress::destination& egress::ready(std::uint32_t to) {
  destination& d = destinations_[to];
  if (d.packing || d.combining) return d;
  const machine::remote_write_queue& q = settings_;
  if (packs(path_)) {
    remote_write_queue::settings s;
    s.entries = q.entries;
    s.line_bytes = line_bytes_;
    s.windows = q.windows;
    s.grows = q.grows_window;
    s.format = {q.subheader_bytes, finepack_payload_bytes(q, fabric_.protocol(index_, to))};
    d.format = s.format;
    d.packing.emplace(s);
    d.announced = ~std::uint64_t{0};
  } else {
    d.combining.emplace(path_ == store_path::whole_line ? combined_lines_ : q.entries);
  }
  return d;
}

std::uint32_t egress::keep(const waiting& w) {
  ++not_taken_;
  if (free_waiting_.empty()) {
    waiting_.push_back(w);
    return static_cast<std::uint32_t>(waiting_.size() - 1);
  }
  const std::uint32_t id = free_waiting_.back();
  free_waiting_.pop_back();
  waiting_[id] = w;
  return id;
}

void egress::store(picoseconds time, std::uint32_t unit, std::uint32_t to, line_access l,
                   const written_bytes& written) {
  std::uint32_t last = 0;
  count_stores(fabric_.protocol(index_, to), written, joined_bytes_, counts_,
               [&](const byte_mask& part, std::uint32_t stores) {
                 waiting w;
                 w.unit = unit;
                 w.to = to;
                 w.stores = stores;
                 w.line = l.line();
                 w.bytes = part;
                 last = keep(w);
                 queue_.push(time, event_kind::store_at_queue, static_cast<std::uint16_t>(index_),
                             last, 0);
               });
  waiting_[last].is_last = true;
  if (check_ != nullptr) check_->stored(l.line(), written.bytes);
}

void egress::pass(picoseconds time, const message& m) {
  waiting w;
  w.is_store = false;
  w.to = m.to;
  w.line = m.address & ~std::uint64_t{line_bytes_ - 1};
  w.passing = m;
  queue_.push(time, event_kind::store_at_queue, static_cast<std::uint16_t>(index_), keep(w), 0);
}

void egress::finish(std::uint32_t id) {
  if (waiting_[id].is_last) freed_.push_back(waiting_[id].unit);
  free_waiting_.push_back(id);
  --not_taken_;
}

bool egress::take(std::uint32_t to, waiting& w) {
  destination& d = ready(to);
  if (w.is_store) return take_store(to, d, w);
  const bool is_atomic = w.passing.kind == message_kind::atomic;
  if (!flush_line(to, d, w.line, is_atomic ? flush_reason::atomic : flush_reason::load))
    return false;
  fabric_.send(queue_.now(), w.passing);
  return true;
}

bool egress::take_store(std::uint32_t to, destination& d, waiting& w) {
  d.last_store = queue_.now();
  const std::uint64_t overwritten = d.overwritten();
  if (d.combining) {
    while (!d.combining->offer(w.line, w.bytes)) {
      if (!has_room(d)) return false;
      send_line(to, d, d.combining->take_oldest(), flush_reason::entries);
    }
    counts_.overwritten += d.overwritten() - overwritten;
  } else {
    bool room = true;
    const byte_mask all = w.bytes;
    d.packing->each_part(all, [&](const byte_mask& part) {
      while (room) {
        const auto refused = d.packing->offer(w.line, part, w.stores);
        if (!refused) break;
        room = has_room(d);
        if (!room) return;
        const std::uint32_t id = take_slot();
        d.packing->flush(refused->window, refused->reason, slots_[id].window);
        send_window(to, d, id);
      }
      if (!room) return;
      w.stores = 0;
      w.bytes.bits[0] &= ~part.bits[0];
      w.bytes.bits[1] &= ~part.bits[1];
    });
    counts_.overwritten += d.overwritten() - overwritten;
    if (!room) return false;
  }
  if (settings_.idle_flush_ps != 0 && !d.timing) {
    d.timing = true;
    queue_.push(queue_.now() + settings_.idle_flush_ps, event_kind::store_queue_idle,
                static_cast<std::uint16_t>(index_), to, 0);
  }
  return true;
}

bool egress::flush_line(std::uint32_t to, destination& d, std::uint64_t line, flush_reason reason) {
  const auto has_line = [&] {
    return d.combining ? d.combining->has_line(line) : d.packing->has_line(line);
  };
  while (has_line()) {
    if (!has_room(d)) return false;
    if (d.combining) {
      send_line(to, d, d.combining->take_line(line), reason);
    } else {
      const std::uint32_t id = take_slot();
      d.packing->flush_line(line, reason, slots_[id].window);
      send_window(to, d, id);
    }
  }
  return true;
}

void egress::flush_all(std::uint32_t to, destination& d, flush_reason reason) {
  if (d.combining) {
    while (!d.combining->empty()) send_line(to, d, d.combining->take_oldest(), reason);
  } else if (d.packing) {
    for (std::uint32_t w = 0; w < d.packing->windows(); ++w) {
      const std::uint32_t id = take_slot();
      if (d.packing->flush(w, reason, slots_[id].window)) {
        send_window(to, d, id);
      } else {
        free_slots_.push_back(id);
      }
    }
  }
}

std::uint32_t egress::take_slot() {
  if (free_slots_.empty()) {
    slots_.emplace_back();
    return static_cast<std::uint32_t>(slots_.size() - 1);
  }
  const std::uint32_t id = free_slots_.back();
  free_slots_.pop_back();
  return id;
}

void egress::send_window(std::uint32_t to, destination& d, std::uint32_t slot_id) {
  slot& s = slots_[slot_id];
  const machine::protocol& p = fabric_.protocol(index_, to);
  const std::uint32_t subheader = settings_.subheader_bytes;
  const window_cost cost =
      path_ == store_path::packed
          ? finepack_cost(p, s.window, subheader)
          : configured_cost(p, s.window, subheader, s.window.base != d.announced);
  d.announced = s.window.base;
  counts_.count_flush(s.window.reason);
  counts_.packets += cost.packets;
  counts_.subpackets += cost.stores;
  counts_.subheader_bytes += std::uint64_t{cost.stores} * subheader;
  counts_.payload += cost.payload;
  counts_.enabled += cost.payload;
  counts_.wire += cost.wire;
  if (check_ != nullptr) s.encoded = check_->encoded(s.window, d.format);
  message m;
  m.kind = message_kind::packed;
  m.from = static_cast<std::uint8_t>(index_);
  m.to = static_cast<std::uint8_t>(to);
  m.unit = slot_id;
  m.address = reinterpret_cast<std::uintptr_t>(&s.window);
  m.payload = cost.payload;
  m.wire = cost.wire;
  m.packets = cost.packets;
  port_waiting_[d.port] += cost.wire;
  fabric_.send(queue_.now(), m);
}

void egress::send_line(std::uint32_t to, destination& d, const queued_line& l,
                       flush_reason reason) {
  const machine::protocol& p = fabric_.protocol(index_, to);
  const std::uint32_t enabled = l.bytes.count();
  packet_cost cost;
  std::uint32_t sectors = l.bytes.units(sector_bytes_, line_bytes_);
  if (path_ == store_path::whole_line) {
    cost.packets = (line_bytes_ + p.max_payload_bytes - 1) / p.max_payload_bytes;
    cost.payload = line_bytes_;
    cost.wire = static_cast<std::uint32_t>(bulk_write_bytes(p, line_bytes_));
    sectors = (1U << line_bytes_ / sector_bytes_) - 1U;
  } else {
    cost = store_packets(p, l.bytes);
  }
  counts_.count_flush(reason);
  counts_.packets += cost.packets;
  counts_.payload += cost.payload;
  counts_.enabled += enabled;
  counts_.wire += cost.wire;
  message m;
  m.kind = message_kind::combined;
  m.from = static_cast<std::uint8_t>(index_);
  m.to = static_cast<std::uint8_t>(to);
  m.entry = enabled;
  m.payload = cost.payload;
  m.wire = cost.wire;
  m.packets = cost.packets;
  m.address = l.line | sectors;
  if (check_ != nullptr) {
    m.unit = take_slot();
    slots_[m.unit].window.lines = {l};
  }
  port_waiting_[d.port] += cost.wire;
  fabric_.send(queue_.now(), m);
}

void egress::handle(const event& e) {
  if (e.kind == event_kind::store_at_queue) {
    const std::uint32_t to = waiting_[e.a].to;
    destination& d = destinations_[to];
    if (d.blocked.empty() && take(to, waiting_[e.a])) {
      finish(e.a);
    } else {
      d.blocked.push_back(e.a);
    }
    return;
  }
  destination& d = destinations_[e.a];
  const picoseconds due = d.last_store + settings_.idle_flush_ps;
  d.timing = due > e.time;
  if (d.timing) {
    queue_.push(due, event_kind::store_queue_idle, static_cast<std::uint16_t>(index_), e.a, 0);
  } else {
    flush_all(e.a, d, flush_reason::timeout);
  }
}

void egress::departed(const message& m) {
  if (m.kind != message_kind::packed && m.kind != message_kind::combined) return;
  const std::uint32_t port = destinations_[m.to].port;
  port_waiting_[port] -= m.wire;
  // Destinations with waiting stores are served in turn, beginning after the destination that was
  // served last.
  const auto devices = static_cast<std::uint32_t>(destinations_.size());
  for (std::uint32_t step = 1; step <= devices; ++step) {
    const std::uint32_t to = (m.to + step) % devices;
    destination& d = destinations_[to];
    if (d.blocked.empty() || d.port != port) continue;
    while (!d.blocked.empty() && take(to, waiting_[d.blocked.front()])) {
      finish(d.blocked.front());
      d.blocked.pop_front();
    }
  }
}

bool egress::release() {
  if (not_taken_ != 0) return false;
  for (std::uint32_t step = 1; step < destinations_.size(); ++step) {
    const auto to = static_cast<std::uint32_t>((index_ + step) % destinations_.size());
    flush_all(to, destinations_[to], flush_reason::release);
  }
  return true;
}

std::uint32_t egress::received(const message& m) {
  const bool is_line = m.kind == message_kind::combined;
  if (is_line && check_ == nullptr) return m.entry;
  if (is_line) {
    const queued_line& l = slots_[m.unit].window.lines.front();
    check_->received(l.line, l.bytes);
  } else if (check_ != nullptr) {
    const slot& s = slots_[m.unit];
    check_->received(s.encoded, destinations_[m.to].format, s.window.lines);
  }
  given_back_[m.to].slots.push_back(m.unit);
  return is_line ? m.entry : m.payload;
}

void egress::take_back() {
  for (given_back& g : given_back_) {
    free_slots_.insert(free_slots_.end(), g.slots.begin(), g.slots.end());
    g.slots.clear();
  }
}

void egress::check_empty() const {
  const std::string where = "gpu" + std::to_string(index_) + ": ";
  if (not_taken_ != 0) throw model_error(where + "some stores were never taken by a queue");
  for (const destination& d : destinations_) {
    if ((d.packing && !d.packing->empty()) || (d.combining && !d.combining->empty())) {
      throw model_error(where + "some stores are left in a queue, and nothing flushes it");
    }
  }
}

}  // namespace interlace::sim
