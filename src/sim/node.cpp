#include "sim/node.hpp"

#include <algorithm>
#include <cstring>

#include "base/errors.hpp"
#include "base/units.hpp"
#include "kernel/chunks.hpp"

namespace interlace::sim {

namespace {

constexpr std::uint32_t agent_block_threads = 128;
constexpr std::uint64_t agent_part_bytes = 256 * agent_block_threads;

address_map make_addresses(std::uint32_t devices, const arena& a, const machine::tlb& pages) {
  address_map map;
  if (pages.page_bytes != 0) map.page_bytes = pages.page_bytes;
  map.slot_bits = a.slot_bits();
  map.devices = devices;
  return map;
}

}  // namespace

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

node::node(const machine::machine& described, std::uint32_t devices,
           std::function<void()> check_interrupt)
    : cpu_node(devices),
      arena_(devices + 1),
      simulation_(first_gpus(described, devices),
                  make_addresses(devices, arena_, described.gpu.tlb), std::move(check_interrupt)),
      streams_(devices) {
  for (stream& s : streams_) s.last_copy.assign(devices, none);
  // The first epochs show the pattern; a page of thousands of bars shows nothing.
  simulation_.record_timeline(std::size_t{64} * devices);
}

void node::record(const std::string& path) {
  if (!simulation_.addresses().homes.empty())
    throw usage_error("unified memory cannot be recorded");
  record_to_ = path;
}

void node::start_recording() {
  if (recording_) return;
  trace::header h;
  h.gpus = devices();
  h.warp_width = simulation_.described().gpu.warp_width;
  for (std::uint32_t d = 0; d < devices(); ++d) {
    const std::uint64_t begin = std::uint64_t{d} << arena_.slot_bits();
    if (arena_.used(d) != 0) h.ranges.push_back({begin, begin + arena_.used(d), d, 0});
  }
  h.source = "simulated " + simulation_.described().name;
  recording_ = std::make_unique<trace::writer>(record_to_, h);
  simulation_.record(recording_.get());
}

void node::finish_recording() {
  if (!recording_) throw usage_error("nothing was run that could be recorded");
  simulation_.record(nullptr);
  recording_->finish();
  recording_.reset();
  record_to_.clear();
}

void* node::take(std::uint32_t device, std::uint64_t bytes) {
  if (recording_) throw model_error("memory is taken while a run is recorded");
  return arena_.take(device, bytes);
}

void* node::take_unified(std::uint64_t bytes, const kernel::page_placement& pages) {
  if (!record_to_.empty()) throw usage_error("unified memory cannot be recorded");
  auto& map = simulation_.addresses();
  // The slot has nothing but whole pages, so that an array begins at one.
  const std::uint64_t count = (bytes + map.page_bytes - 1) / map.page_bytes;
  std::byte* data = arena_.take(devices(), count * map.page_bytes);
  for (std::uint64_t k = 0; k < count; ++k) {
    map.homes.push_back(static_cast<std::uint8_t>(
        kernel::home_of_page(pages, k, count, placed_in_turn_, devices())));
  }
  if (pages.how == kernel::page_placement::kind::round_robin) placed_in_turn_ += count;
  return data;
}

void node::adding(std::uint32_t /*id*/, const kernel::region_state& state) {
  const auto how = state.options.mechanism;
  kernel::check_has(kernel::node_kind::sim, how);
  if (!state.is_reduction && how == kernel::mechanism::polling &&
      state.options.agent_copy == kernel::agent_copy::bulk) {
    throw usage_error(
        "an agent that copies in bulk is measured on real GPUs and not simulated; say with "
        "--chunks "
        "and --threads what agents to simulate");
  }
  if (!state.is_reduction && !state.options.transfers && !kernel::tracks_chunks(how)) {
    throw usage_error(std::string(kernel::mechanism_name(how)) +
                      " tracks nothing, so nothing is left of it without transfers; take a "
                      "mechanism that tracks chunks");
  }
  if (devices() > 1) check_store_path(simulation_.described(), path_of(how));
  trackers_.push_back(state.is_reduction
                          ? nullptr
                          : std::make_unique<kernel::use_tracker>(devices(), state.elements,
                                                                  state.options.boundaries));
  auto& pages = subscriptions_.emplace_back();
  if (state.is_reduction || how != kernel::mechanism::gps || devices() == 1) return;
  std::array<std::array<std::uint64_t, 2>, max_devices> buffers{};
  for (std::uint32_t d = 0; d < devices(); ++d) {
    for (std::size_t b = 0; b < 2; ++b) buffers[d][b] = arena_.address(state.buffers[d][b]);
  }
  pages = std::make_unique<subscriptions>(simulation_.described().gpu.gps.page_bytes,
                                          state.element_bytes, state.options.boundaries, buffers);
}

recorder::settings node::recorded_by(std::uint32_t device) const {
  recorder::settings record;
  record.warp_width = simulation_.described().gpu.warp_width;
  record.line_bytes = simulation_.described().gpu.l1.line_bytes;
  record.sector_bytes = simulation_.described().gpu.l1.sector_bytes;
  record.address_base = arena_.base();
  record.device = device;
  record.watch_words = !simulation_.addresses().homes.empty();
  for (const auto& t : trackers_) record.regions.push_back(t.get());
  const auto there = [](const auto& s) { return s != nullptr; };
  if (std::any_of(subscriptions_.begin(), subscriptions_.end(), there)) {
    for (const auto& s : subscriptions_) record.subscribed.push_back(s.get());
    record.slot_bits = arena_.slot_bits();
  }
  return record;
}

kernel::trace_totals node::trace_blocks(std::uint32_t device, grid shape,
                                        const block_function& block) const {
  if (!simulation_.idle()) throw model_error("a trace inside of run");
  kernel::trace_totals totals;
  recorder::settings record = recorded_by(device);
  record.regions.assign(trackers_.size(), nullptr);
  record.subscribed.clear();
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

void node::check_deliveries() { simulation_.check_deliveries(arena_.base()); }

std::uint64_t node::checked_packets() const {
  return simulation_.deliveries() == nullptr ? 0 : simulation_.deliveries()->packets();
}

void node::treat_loads(const kernel::remote_load_options& options) {
  if (options.pack) {
    check_store_path(simulation_.described(), store_path::packed);
    unified_stores_ = store_path::packed;
  }
  simulation_.treat_loads(options);
}

void node::enqueue_kernel(std::uint32_t device, grid shape, const block_function& block,
                          std::uint32_t region, const kernel::block_mapping* mapping) {
  recorder::settings record = recorded_by(device);
  stream& s = streams_[device];
  const auto how =
      region == none ? kernel::mechanism::bulk_copy : states_[region].options.mechanism;
  record.stores_inline = kernel::row_of(how).stores_inline;
  if (kernel::tracks_chunks(how) && devices() > 1) {
    enqueue_tracked(device, shape, record, block, region, *mapping);
    return;
  }
  if (how != kernel::mechanism::split || devices() == 1) {
    const store_path path = region == none ? unified_stores_ : path_of(how);
    s.last = {simulation_.add_kernel(device, shape, record, block, s.last, nullptr, path)};
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

void node::enqueue_share(std::uint32_t device, grid shape, const block_function& block,
                         kernel::block_share share) {
  shape.blocks = share.count;
  enqueue_kernel(
      device, shape,
      [block, share](std::uint64_t index, recorder& r, kernel::block_memory& m) {
        block(share.first + index * share.stride, r, m);
      },
      none, nullptr);
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
  t->threads_a_block = shape.threads;
  const bool polls = how.mechanism == kernel::mechanism::polling;
  if (polls && !t->chunks.empty()) t->agent_warps = how.agent_threads / record.warp_width;
  simulation::copy_request request;
  request.by = polls                                               ? simulation::mover::agent
               : how.mechanism == kernel::mechanism::device_launch ? simulation::mover::child
               : how.mechanism == kernel::mechanism::proact_hardware
                   ? simulation::mover::descriptors
                   : simulation::mover::waiting;
  request.threads = how.agent_threads;
  if (polls) {
    // As src/cuda/region/agent.cu: blocks take parts of chunks that keep their threads busy.
    const std::uint64_t blocks = std::max(1U, how.agent_threads / agent_block_threads);
    const std::uint64_t a_chunk =
        std::clamp<std::uint64_t>(how.chunk_bytes / agent_part_bytes, 1, blocks);
    request.at_once = static_cast<std::uint32_t>(blocks / a_chunk);
  }
  request.held = true;
  request.moves = how.transfers;
  std::vector<task_id> last_to(devices(), none);
  for (const kernel::chunk& c : t->chunks) {
    auto& copies = t->copies.emplace_back();
    std::vector<std::uint32_t> peers;
    for (std::uint32_t step = 1; step < devices(); ++step) {
      const std::uint32_t to = (device + step) % devices();
      if ((c.peers >> to & 1U) != 0) peers.push_back(to);
    }
    if (request.by == simulation::mover::waiting) {
      for (const std::uint32_t to : peers) {
        // A stream for each peer: its next wait begins when the copy before has ended.
        std::vector<task_id> before;
        if (last_to[to] != none) before.push_back(last_to[to]);
        last_to[to] = enqueue_copy(region, device, c.begin, c.end, {to}, request, before);
        copies.push_back(last_to[to]);
      }
    } else {
      copies.push_back(enqueue_copy(region, device, c.begin, c.end, peers, request, {}));
    }
    s.copies.insert(s.copies.end(), copies.begin(), copies.end());
  }
  if (how.mechanism != kernel::mechanism::proact_hardware) {
    auto& counters = counters_[{device, region}];
    if (counters == nullptr) {
      counters =
          arena_.take(device, std::max<std::size_t>(1, t->chunks.size()) * sizeof(std::uint64_t));
    }
    record.counters = counters;
  }
  record.chunks = &t->chunks;
  s.last = {simulation_.add_kernel(
      device, shape, record,
      [block, mapping](std::uint64_t index, recorder& r, kernel::block_memory& m) {
        block(index, r, m);
        r.finish(mapping.writes(index));
      },
      s.last, t)};
}

task_id node::enqueue_copy(std::uint32_t region, std::uint32_t from, std::uint64_t begin,
                           std::uint64_t end, const std::vector<std::uint32_t>& to,
                           simulation::copy_request how, const std::vector<task_id>& after) {
  kernel::region_state& state = states_[region];
  const std::uint32_t back = state.parity ^ 1U;
  const std::uint64_t offset = begin * state.element_bytes;
  const std::byte* source = static_cast<const std::byte*>(state.buffers[from][back]) + offset;
  how.from = from;
  how.address = arena_.address(source);
  how.bytes = (end - begin) * state.element_bytes;
  std::vector<std::byte*> targets;
  for (const std::uint32_t d : to) {
    targets.push_back(static_cast<std::byte*>(state.buffers[d][back]) + offset);
    how.to.push_back({d, arena_.address(targets.back())});
  }
  how.arrived = [source, targets, bytes = how.bytes] {
    for (std::byte* target : targets) std::memcpy(target, source, bytes);
  };
  return simulation_.add_copy(std::move(how), after);
}

void node::enqueue_copies(std::uint32_t region, const std::vector<kernel::delivery>& deliveries,
                          const std::vector<task_id>& after) {
  for (const kernel::delivery& d : deliveries) {
    stream& s = streams_[d.from];
    std::vector<task_id> before = after;
    if (s.last_copy[d.to] != none) before.push_back(s.last_copy[d.to]);
    const task_id id = enqueue_copy(region, d.from, d.begin, d.end, {d.to}, {}, before);
    s.last_copy[d.to] = id;
    s.copies.push_back(id);
  }
}

void node::enqueue_serial_copies(std::uint32_t region) {
  std::vector<task_id> last(devices(), none);  // that touches each device
  std::vector<task_id> kernels;
  for (const stream& s : streams_) kernels.insert(kernels.end(), s.last.begin(), s.last.end());
  for (std::uint32_t from = 0; from < devices(); ++from) {
    for (std::uint32_t to = 0; to < devices(); ++to) {
      for (const kernel::delivery& d :
           states_[region].deliveries(from, {{states_[region].options.boundaries[from],
                                              states_[region].options.boundaries[from + 1]}})) {
        if (d.to != to) continue;
        std::vector<task_id> ends{last[from], last[to]};
        std::erase(ends, none);
        simulation::copy_request how;
        if (ends.empty()) how.by = simulation::mover::host;
        last[from] = last[to] =
            enqueue_copy(region, from, d.begin, d.end, {to}, how, ends.empty() ? kernels : ends);
        streams_[from].copies.push_back(last[from]);
      }
    }
  }
}

void node::enqueue_exchange(const std::vector<std::uint32_t>& ids) {
  bool instant = false;
  std::vector<trace::stretch> appears;
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
    arrived.emplace_back([tracker, pages = subscriptions_[id].get()] {
      tracker->end_epoch();
      if (pages != nullptr) pages->end_epoch();
    });
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
    } else if (state.options.mechanism == kernel::mechanism::serial_copy) {
      enqueue_serial_copies(id);
    } else if (state.options.mechanism == kernel::mechanism::infinite_bandwidth) {
      instant = true;
      arrived.emplace_back([this, id, back] {
        for (const kernel::delivery& d : states_[id].deliveries()) deliver(id, d, back);
      });
      for (const kernel::delivery& d : state.deliveries()) {
        const auto* to = static_cast<const std::byte*>(state.buffers[d.to][back]);
        appears.push_back({d.to, arena_.address(to + d.begin * state.element_bytes),
                           (d.end - d.begin) * state.element_bytes});
      }
    }
    state.parity = back;
  }
  std::vector<std::vector<task_id>> after;
  for (stream& s : streams_) {
    std::vector<task_id> before = s.last;
    before.insert(before.end(), s.copies.begin(), s.copies.end());
    after.push_back(std::move(before));
  }
  const auto tasks = simulation_.add_exchange(after, payload, instant, std::move(appears),
                                              [arrived = std::move(arrived)] {
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
  result.time_s = seconds_of(simulation_.run());
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
  const page_traffic pages = simulation_.migrated();
  const auto payload = static_cast<double>(c.stored_payload() + copies.payload);
  const std::uint64_t walk_wire = c.translations.wire + simulation_.walked().wire;
  const auto wire = static_cast<double>(c.stored_wire() + c.read_wire + copies.wire + flags.wire +
                                        pages.wire + walk_wire);
  const auto reads = static_cast<double>(c.read_payload + pages.payload);
  result.wire_known = true;
  result.wire.useful = std::min(used, payload) + static_cast<double>(flags.payload) + reads;
  result.wire.wasted = payload - std::min(used, payload);
  result.wire.protocol = wire - payload - reads - static_cast<double>(flags.payload);
  result.timeline = simulation_.take_timeline();
  result.observed = simulation_.observe();
  result.accesses = c.accesses;
  result.remote_transactions = c.remote_transactions() + simulation_.copy_stores();
  if (!simulation_.addresses().homes.empty()) {
    const auto mean = [](picoseconds sum, std::uint64_t n) {
      return n == 0 ? 0.0 : seconds_of(sum) / static_cast<double>(n);
    };
    result.loads = {c.accesses - c.scalar,
                    c.scalar,
                    c.loads.local,
                    c.loads.remote,
                    c.loads.hits,
                    c.loads.words * 4,
                    c.loads.local_stores,
                    c.loads.remote_stores,
                    c.reads,
                    c.read_payload,
                    c.read_wire,
                    mean(c.read_latency, c.reads),
                    c.loads.bypassed,
                    c.loads.mask_hits,
                    c.loads.mask_misses,
                    c.loads.coalesced,
                    c.loads.timeouts,
                    c.loads.pieces,
                    c.loads.cache_hits,
                    c.loads.cache_misses,
                    c.loads.by_words,
                    simulation_.pages_treated(optimisation::coalesce),
                    simulation_.pages_treated(optimisation::cache),
                    pages.pages,
                    simulation_.moved().again,
                    simulation_.moved().delayed,
                    simulation_.moved().batches,
                    c.loads.l2_loads,
                    c.loads.l2_hits,
                    mean(c.loads.waited, c.loads.instructions),
                    mean(c.loads.in_links, c.reads),
                    c.translations.l1_hits,
                    c.translations.l1_misses,
                    c.translations.l2_hits,
                    c.translations.l2_misses,
                    c.translations.walks,
                    walk_wire,
                    mean(c.translations.walk_latency, c.translations.walks),
                    simulation_.load_decisions()};
  }
  kernel::remote_store_counts& stores = result.stores;
  stores.stores = c.stores.stores;
  stores.bytes = c.stores.bytes;
  stores.sizes = c.stores.sizes;
  stores.packets = c.stores.packets;
  stores.wire = c.stores.wire;
  stores.overwritten = c.stores.overwritten;
  stores.flushes = c.stores.flushed;
  stores.subpackets = c.stores.subpackets;
  stores.subheader_bytes = c.stores.subheader_bytes;
  stores.reasons = c.stores.reasons;
  return result;
}

}  // namespace interlace::sim
