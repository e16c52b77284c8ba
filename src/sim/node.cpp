#include "sim/node.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/errors.hpp"
#include "kernel/chunks.hpp"

namespace interlace::sim {

namespace {

machine::machine first_gpus(machine::machine m, std::uint32_t devices) {
  if (devices == 0 || devices > m.gpu_count) {
    throw usage_error("machine " + m.name + " has " + std::to_string(m.gpu_count) +
                      " GPUs; use 1 to " + std::to_string(m.gpu_count) + ", not " +
                      std::to_string(devices));
  }
  m.gpu_count = devices;
  const auto left_out = [&](const machine::endpoint& e) {
    return e.kind == machine::endpoint_kind::gpu && e.index >= devices;
  };
  std::erase_if(m.links, [&](const machine::link& l) { return left_out(l.a) || left_out(l.b); });
  return m;
}

address_map make_addresses(std::uint32_t devices, const arena& a) {
  address_map map;
  map.slot_bits = a.slot_bits();
  map.devices = devices;
  return map;
}

}  // namespace

node::node(const machine::machine& described, std::uint32_t devices,
           std::function<void()> check_interrupt)
    : cpu_node(devices),
      arena_(devices + 1),
      simulation_(first_gpus(described, devices), make_addresses(devices, arena_),
                  std::move(check_interrupt)),
      streams_(devices) {
  for (stream& s : streams_) s.last_copy.assign(devices, none);
  // The first epochs show the pattern; a page of thousands of bars shows nothing.
  simulation_.record_timeline(std::size_t{64} * devices);
}

void* node::take_unified(std::uint64_t bytes) {
  auto& map = simulation_.addresses();
  std::byte* data =
      arena_.take(devices(), (bytes + map.page_bytes - 1) / map.page_bytes * map.page_bytes);
  const std::uint64_t end = (arena_.address(data) & ((std::uint64_t{1} << map.slot_bits) - 1)) +
                            bytes + map.page_bytes - 1;
  while (map.homes.size() * map.page_bytes < end) {
    map.homes.push_back(static_cast<std::uint8_t>(map.homes.size() % devices()));
  }
  return data;
}

void node::adding(std::uint32_t /*id*/, const kernel::region_state& state) {
  const auto how = state.options.mechanism;
  if (how == kernel::mechanism::nccl || how == kernel::mechanism::unified_memory) {
    throw usage_error(
        std::string(kernel::mechanism_name(how)) +
        " is measured on real GPUs and not simulated; bulk-copy also moves everything "
        "at the exchange");
  }
  trackers_.push_back(state.is_reduction
                          ? nullptr
                          : std::make_unique<kernel::use_tracker>(devices(), state.elements,
                                                                  state.options.boundaries));
}

recorder::settings node::recorded_by(std::uint32_t device) const {
  recorder::settings record;
  record.warp_width = simulation_.described().gpu.warp_width;
  record.line_bytes = simulation_.described().gpu.l1.line_bytes;
  record.sector_bytes = simulation_.described().gpu.l1.sector_bytes;
  record.address_base = arena_.base();
  record.device = device;
  for (const auto& t : trackers_) record.regions.push_back(t.get());
  return record;
}

kernel::trace_totals node::trace_blocks(std::uint32_t device, grid shape,
                                        const block_function& block) const {
  if (!simulation_.idle()) throw model_error("a trace inside of run");
  kernel::trace_totals totals;
  recorder::settings record = recorded_by(device);
  record.regions.assign(trackers_.size(), nullptr);
  record.totals = &totals;
  std::vector<warp_program> programs((shape.threads + record.warp_width - 1) / record.warp_width);
  recorder recording;
  kernel::block_memory memory;
  for (std::uint64_t b = 0; b < shape.blocks; ++b) {
    recording.begin_block(record, programs);
    block(b, recording, memory);
    recording.end_block();
  }
  return totals;
}

void node::enqueue_kernel(std::uint32_t device, grid shape, const block_function& block,
                          std::uint32_t region, const kernel::block_mapping* mapping) {
  recorder::settings record = recorded_by(device);
  stream& s = streams_[device];
  const auto how =
      region == none ? kernel::mechanism::bulk_copy : states_[region].options.mechanism;
  record.stores_inline = how == kernel::mechanism::inline_stores;
  if (kernel::tracks_chunks(how) && devices() > 1) {
    enqueue_tracked(device, shape, record, block, region, *mapping);
    return;
  }
  if (how != kernel::mechanism::split || devices() == 1) {
    s.last = {simulation_.add_kernel(device, shape, record, block, s.last)};
    return;
  }
  for (const auto& part : mapping->split(shape.blocks, states_[region].options.split_ranges)) {
    grid range = shape;
    range.blocks = part.last_block - part.first_block;
    s.last = {simulation_.add_kernel(
        device, range, record,
        [block, first = part.first_block](std::uint64_t index, recorder& r,
                                          kernel::block_memory& m) { block(first + index, r, m); },
        s.last)};
    enqueue_copies(region, states_[region].deliveries(device, part.complete), s.last);
  }
}

void node::enqueue_tracked(std::uint32_t device, grid shape, recorder::settings record,
                           const block_function& block, std::uint32_t region,
                           const kernel::block_mapping& mapping) {
  const kernel::region_options& how = states_[region].options;
  stream& s = streams_[device];
  if (!s.tracked.insert(region).second) {
    throw model_error("two launches of one epoch write region " + std::to_string(region) +
                      ", whose " + kernel::mechanism_name(how.mechanism) +
                      " mechanism takes one; exchange between them");
  }
  auto t = std::make_shared<simulation::tracked_launch>();
  t->chunks = kernel::cut_chunks(states_[region], device);
  t->left = kernel::announce(t->chunks, mapping, shape.blocks,
                             {how.boundaries[device], how.boundaries[device + 1]})
                .targets;
  simulation::mover by;
  if (how.mechanism == kernel::mechanism::polling) {
    by.agent_threads = how.agent_threads;
    if (!t->chunks.empty()) t->agent_warps = how.agent_threads / record.warp_width;
  }
  for (const kernel::chunk& c : t->chunks) {
    auto& copies = t->copies.emplace_back();
    by.peers = static_cast<std::uint32_t>(std::popcount(c.peers));
    for (std::uint32_t step = 1; step < devices(); ++step) {
      const std::uint32_t to = (device + step) % devices();
      if ((c.peers >> to & 1U) == 0) continue;
      copies.push_back(enqueue_copy(region, {device, to, c.begin, c.end}, {}, by, true));
    }
    s.copies.insert(s.copies.end(), copies.begin(), copies.end());
  }
  auto& counters = counters_[{device, region}];
  if (counters == nullptr) {
    counters =
        arena_.take(device, std::max<std::size_t>(1, t->chunks.size()) * sizeof(std::uint64_t));
  }
  record.counters = counters;
  record.chunks = &t->chunks;
  s.last = {simulation_.add_kernel(
      device, shape, record,
      [block, mapping](std::uint64_t index, recorder& r, kernel::block_memory& m) {
        block(index, r, m);
        r.finish(mapping.writes(index));
      },
      s.last, t)};
}

task_id node::enqueue_copy(std::uint32_t region, const kernel::delivery& d,
                           const std::vector<task_id>& after, simulation::mover by, bool held) {
  kernel::region_state& state = states_[region];
  const std::uint32_t back = state.parity ^ 1U;
  const std::uint64_t offset = d.begin * state.element_bytes;
  const std::uint64_t bytes = (d.end - d.begin) * state.element_bytes;
  const std::byte* from = static_cast<const std::byte*>(state.buffers[d.from][back]) + offset;
  std::byte* to = static_cast<std::byte*>(state.buffers[d.to][back]) + offset;
  return simulation_.add_copy(
      d.from, d.to, arena_.address(from), arena_.address(to), bytes,
      [from, to, bytes] { std::memcpy(to, from, bytes); }, after, by, held);
}

void node::enqueue_copies(std::uint32_t region, const std::vector<kernel::delivery>& deliveries,
                          const std::vector<task_id>& after) {
  for (const kernel::delivery& d : deliveries) {
    stream& s = streams_[d.from];
    std::vector<task_id> before = after;
    if (s.last_copy[d.to] != none) before.push_back(s.last_copy[d.to]);
    const task_id id = enqueue_copy(region, d, before, {}, false);
    s.last_copy[d.to] = id;
    s.copies.push_back(id);
  }
}

void node::enqueue_exchange(const std::vector<std::uint32_t>& ids) {
  bool instant = false;
  std::uint32_t payload = 0;
  std::vector<std::function<void()>> arrived;
  for (const std::uint32_t id : ids) {
    kernel::region_state& state = states_[id];
    if (state.is_reduction) {
      payload += static_cast<std::uint32_t>(state.elements * state.element_bytes);
      arrived.emplace_back([this, id] { fold(id); });
      continue;
    }
    kernel::use_tracker* tracker = trackers_[id].get();
    arrived.emplace_back([tracker] { tracker->end_epoch(); });
    const std::uint32_t back = state.parity ^ 1U;
    if (kernel::tracks_chunks(state.options.mechanism) && devices() > 1) {
      for (std::uint32_t d = 0; d < devices(); ++d) {
        if (streams_[d].tracked.erase(id) != 0 || kernel::cut_chunks(state, d).empty()) continue;
        throw model_error("region " + std::to_string(id) +
                          " is exchanged, but no launch of device " + std::to_string(d) +
                          " wrote it in this epoch");
      }
    } else if (state.options.mechanism == kernel::mechanism::bulk_copy) {
      for (std::uint32_t d = 0; d < devices(); ++d) {
        enqueue_copies(
            id,
            state.deliveries(d, {{state.options.boundaries[d], state.options.boundaries[d + 1]}}),
            streams_[d].last);
      }
    } else if (state.options.mechanism == kernel::mechanism::infinite_bandwidth) {
      instant = true;
      arrived.emplace_back([this, id, back] {
        for (const kernel::delivery& d : states_[id].deliveries()) deliver(id, d, back);
      });
    }
    state.parity = back;
  }
  std::vector<std::vector<task_id>> after;
  for (stream& s : streams_) {
    std::vector<task_id> before = s.last;
    before.insert(before.end(), s.copies.begin(), s.copies.end());
    after.push_back(std::move(before));
  }
  const auto tasks =
      simulation_.add_exchange(after, payload, instant, [arrived = std::move(arrived)] {
        for (const auto& f : arrived) f();
      });
  for (std::uint32_t d = 0; d < devices(); ++d) {
    streams_[d].last = {tasks[d]};
    streams_[d].copies.clear();
    streams_[d].last_copy.assign(devices(), none);
  }
}

kernel::run_result node::finish() {
  kernel::run_result result;
  result.time_s = static_cast<double>(simulation_.run()) * 1e-12;
  bool open = false;
  for (stream& s : streams_) {
    open = open || !s.copies.empty() || !s.tracked.empty();
    s.last.clear();
    s.copies.clear();
    s.tracked.clear();
  }
  if (open) throw model_error("a run ends with a launch whose region is not exchanged");
  const gpu_counters c = simulation_.counters();
  const traffic& copies = simulation_.copies();
  const traffic& flags = simulation_.flags();
  double used = 0;
  for (std::uint32_t id = 0; id < states_.size(); ++id) {
    if (trackers_[id])
      used += static_cast<double>(trackers_[id]->used() * states_[id].element_bytes);
  }
  const auto payload = static_cast<double>(c.store_payload + copies.payload);
  const auto wire = static_cast<double>(c.store_wire + c.read_wire + copies.wire + flags.wire);
  const auto reads = static_cast<double>(c.read_payload);
  result.wire_known = true;
  result.wire.useful = std::min(used, payload) + static_cast<double>(flags.payload) + reads;
  result.wire.wasted = payload - std::min(used, payload);
  result.wire.protocol = wire - payload - reads - static_cast<double>(flags.payload);
  result.timeline = simulation_.take_timeline();
  result.accesses = c.accesses;
  result.remote_transactions = c.remote_transactions;
  return result;
}

}  // namespace interlace::sim
