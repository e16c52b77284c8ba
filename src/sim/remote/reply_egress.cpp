#include "sim/remote/reply_egress.hpp"

#include <algorithm>
#include <cmath>

#include "sim/fabric/protocol.hpp"

namespace interlace::sim {

namespace {

reply_coalescer::settings settings_of(const machine::gpu& g, std::uint32_t devices,
                                      const reply_format& format) {
  const double timeout = g.dualopt.timeout_clocks * 1e12 / g.clock_hz;
  return {.destinations = devices,
          .buffer_pieces = g.dualopt.buffer_pieces,
          .packet_pieces = format.most_pieces(),
          .timeout = static_cast<picoseconds>(std::llround(timeout))};
}

}  // namespace

reply_egress::reply_egress(std::uint32_t index, const machine::gpu& config, std::uint32_t devices,
                           event_queue& queue, fabric& links, gpu_counters& counts)
    : index_(index),
      format_{.line_bytes = config.l1.line_bytes,
              .piece_bytes = config.dualopt.piece_bytes,
              .packet_bytes = config.dualopt.packet_bytes},
      queue_(queue),
      fabric_(links),
      coalescer_(settings_of(config, devices, format_)),
      destinations_(devices),
      port_waiting_(links.ports(), 0),
      counts_(counts) {}

void reply_egress::reply(picoseconds time, std::uint32_t to, std::uint16_t id,
                         std::uint32_t pieces) {
  queue_.push(time, event_kind::reply_read, static_cast<std::uint16_t>(index_), to,
              std::uint64_t{pieces} << 16U | id);
}

void reply_egress::push(std::uint32_t to, const waiting& w) {
  coalescer_.push(queue_.now(), to, w.id, w.pieces);
  destination& d = destinations_[to];
  if (d.timing) return;
  d.timing = true;
  queue_.push(*coalescer_.flush_at(to), event_kind::reply_timeout,
              static_cast<std::uint16_t>(index_), to, 0);
}

void reply_egress::handle(const event& e) {
  destination& d = destinations_[e.a];
  if (e.kind == event_kind::reply_read) {
    const waiting w{static_cast<std::uint16_t>(e.b & 0xffffU),
                    static_cast<std::uint32_t>(e.b >> 16U)};
    if (!d.blocked.empty() || !coalescer_.has_room(e.a, w.pieces)) {
      d.blocked.push_back(w);
    } else {
      push(e.a, w);
    }
  } else {
    d.timing = false;
    const auto flush_at = coalescer_.flush_at(e.a);
    if (flush_at && *flush_at > queue_.now()) {
      d.timing = true;
      queue_.push(*flush_at, event_kind::reply_timeout, static_cast<std::uint16_t>(index_), e.a, 0);
    }
  }
  send_all();
}

void reply_egress::send_all() {
  const auto open = [this](std::uint32_t to) {
    const std::uint32_t port = fabric_.port(index_, to);
    return port_waiting_[port] < fabric_.port_bytes(port);
  };
  while (coalescer_.take(queue_.now(), open, next_)) {
    const auto n = static_cast<std::uint32_t>(next_.ids.size());
    std::uint32_t slot = 0;
    if (free_slots_.empty()) {
      slot = static_cast<std::uint32_t>(slots_.size());
      slots_.emplace_back();
    } else {
      slot = free_slots_.back();
      free_slots_.pop_back();
    }
    // The packet carries no values, because the values are already in the simulated program's
    // memory.
    slots_[slot] = encode_reply(
        reply_packet{true, next_.ids, std::vector<std::uint8_t>(n * format_.piece_bytes)}, format_);
    message m;
    m.kind = message_kind::coalesced_reply;
    m.from = static_cast<std::uint8_t>(index_);
    m.to = static_cast<std::uint8_t>(next_.to);
    m.unit = slot;
    m.payload = n * format_.piece_bytes;
    m.wire = read_reply_bytes(fabric_.protocol(index_, next_.to),
                              format_.bytes_of_pieces(n) - reply_header_bytes);
    counts_.read_payload += m.payload;
    counts_.read_wire += m.wire;
    if (next_.cause == reply_cause::timeout) ++counts_.loads.timeouts;
    port_waiting_[fabric_.port(index_, next_.to)] += m.wire;
    fabric_.send(queue_.now(), m);
    destination& d = destinations_[next_.to];
    while (!d.blocked.empty() && coalescer_.has_room(next_.to, d.blocked.front().pieces)) {
      push(next_.to, d.blocked.front());
      d.blocked.pop_front();
    }
  }
}

void reply_egress::departed(const message& m) {
  port_waiting_[fabric_.port(index_, m.to)] -= m.wire;
  send_all();
}

std::vector<std::uint8_t> reply_egress::take(std::uint32_t slot) {
  free_slots_.push_back(slot);
  return std::move(slots_[slot]);
}

bool reply_egress::empty() const {
  return coalescer_.empty() && std::all_of(destinations_.begin(), destinations_.end(),
                                           [](const destination& d) { return d.blocked.empty(); });
}

}  // namespace interlace::sim
