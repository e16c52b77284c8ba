#include "plan/resources.hpp"

#include <algorithm>
#include <limits>

#include "machine/copy_rate.hpp"
#include "machine/route.hpp"

namespace interlace::plan {

using machine::endpoint;
using machine::endpoint_kind;

double resource::rest() const { return std::max(0.0, capacity - busy); }

double resource::fair() const { return std::max(rest(), capacity / (users + 1)); }

resources::resources(const machine::machine& described) : machine_(described) {
  const auto named = [&](endpoint end) { return machine::name(described, end); };
  for (const machine::link& edge : described.links) {
    const double rate = machine::copy_bytes_per_s(edge);
    all_.push_back({.kind = resource_kind::link,
                    .name = named(edge.a) + " -> " + named(edge.b),
                    .capacity = rate});
    all_.push_back({.kind = resource_kind::link,
                    .name = named(edge.b) + " -> " + named(edge.a),
                    .capacity = rate});
  }
  for (const machine::link& edge : described.links) {
    both_.emplace_back();
    if (edge.copy_both_bytes_per_s <= 0) continue;
    both_.back() = all_.size();
    all_.push_back({.kind = resource_kind::both_directions,
                    .name = "both directions of " + named(edge.a) + " - " + named(edge.b),
                    .capacity = edge.copy_both_bytes_per_s});
  }
  gpu_memory_ = all_.size();
  for (std::uint32_t gpu = 0; gpu < described.gpu_count; ++gpu)
    all_.push_back({.kind = resource_kind::gpu_memory,
                    .name = "the memory of " + named({endpoint_kind::gpu, gpu}),
                    .capacity = described.gpu.dram.bytes_per_s});
  engines_ = all_.size();
  for (std::uint32_t gpu = 0; gpu < described.gpu_count; ++gpu)
    all_.push_back({.kind = resource_kind::engines,
                    .name = "the copy engines of " + named({endpoint_kind::gpu, gpu}),
                    .capacity = static_cast<double>(described.gpu.copy_engines)});
  host_memory_ = all_.size();
  all_.push_back({.kind = resource_kind::host_memory,
                  .name = "the memory of the host",
                  .capacity = described.host.memory_bytes_per_s});
  if (described.host.copy_write_bytes_per_s > 0) {
    host_writes_ = all_.size();
    all_.push_back({.kind = resource_kind::host_writes,
                    .name = "writes to the host's memory",
                    .capacity = described.host.copy_write_bytes_per_s});
  }
}

std::optional<leg> resources::copy(endpoint from, endpoint to) const {
  if (from.kind != endpoint_kind::gpu && to.kind != endpoint_kind::gpu) return std::nullopt;
  const auto way = machine::route(machine_, from, to);
  if (!way || way->empty()) return std::nullopt;
  leg made;
  made.from = from;
  made.to = to;
  const bool sends = from.kind == endpoint_kind::gpu;
  made.gpu = sends ? from.index : to.index;
  for (const machine::hop& step : *way) {
    const machine::link& edge = machine_.links[step.link];
    made.uses.push_back(of_link(step.link, step.forward));
    if (both_[step.link]) made.uses.push_back(*both_[step.link]);
    made.latency_ps += edge.latency_ps;
    const endpoint behind = step.forward ? edge.b : edge.a;
    if (behind.kind == endpoint_kind::network_switch)
      made.latency_ps += machine_.switches[behind.index].latency_ps;
  }
  const machine::hop& own = sends ? way->front() : way->back();
  made.port = of_link(own.link, own.forward);
  for (const endpoint end : {from, to})
    made.uses.push_back(end.kind == endpoint_kind::gpu ? gpu_memory_ + end.index : host_memory_);
  if (to.kind == endpoint_kind::host && host_writes_) made.uses.push_back(*host_writes_);
  made.engines = engines_ + made.gpu;
  made.bytes_per_s = machine_.gpu.copy_bytes_per_s;
  for (const std::size_t index : made.uses)
    made.bytes_per_s = std::min(made.bytes_per_s, all_[index].capacity);
  return made;
}

bool resources::add(const traffic& running) {
  std::vector<leg> legs;
  double rate = std::numeric_limits<double>::infinity();
  for (std::size_t stop = 0; stop + 1 < running.stops.size(); ++stop) {
    auto made = copy(running.stops[stop], running.stops[stop + 1]);
    if (!made) return false;
    rate = std::min(rate, made->bytes_per_s);
    legs.push_back(std::move(*made));
  }
  if (legs.empty()) return false;
  if (running.bytes_per_s > 0) rate = std::min(rate, running.bytes_per_s);
  for (const leg& part : legs) {
    for (const std::size_t index : part.uses) {
      all_[index].busy = std::min(all_[index].capacity, all_[index].busy + rate);
      ++all_[index].users;
    }
    resource& engines = all_[part.engines];
    engines.busy = std::min(engines.capacity, engines.busy + rate / part.bytes_per_s);
    ++engines.users;
  }
  return true;
}

}  // namespace interlace::plan
