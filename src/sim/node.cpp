#include "interlace/sim/node.hpp"

#include <algorithm>
#include <deque>
#include <utility>

#include "base/units.hpp"
#include "interlace/base/errors.hpp"
#include "interlace/kernel/use_tracker.hpp"
#include "interlace/sim/gpu/subscribed_pages.hpp"
#include "sim/engine/add_counts.hpp"
#include "sim/mechanism/load_mechanisms.hpp"
#include "sim/mechanism/region_mechanisms.hpp"
#include "sim/mechanism/streams.hpp"
#include "sim/tasks/arena.hpp"
#include "sim/tasks/simulation.hpp"
#include "sim/trace/writer.hpp"

namespace interlace::sim {

namespace {

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

struct node::parts {
  // All counts of a node that are summed over iterations.
  struct totals {
    gpu_counters gpus;
    traffic copies;
    traffic flags;
    std::uint64_t walk_wire = 0;
    std::uint64_t copy_stores = 0;
    std::uint64_t used_bytes = 0;
    std::uint64_t packing_bytes = 0;  // bytes in update packets, except the updates' values
  };

  // The end of an iteration on all devices.
  struct iteration_end {
    picoseconds time = 0;  // time since the run began
    totals counted;        // the counts at the end of the iteration
  };
  // The end of an iteration on each device. Devices can end an iteration at the same time, in
  // several threads.
  using device_ends = std::vector<iteration_end>;

  parts(const machine::machine& described, std::uint32_t devices,
        std::function<void()> check_interrupt, std::vector<kernel::region_state>& states,
        const std::deque<counts_by_device>& counts)
      : updates(counts),
        memory(devices + 1),
        simulated(first_gpus(described, devices),
                  make_addresses(devices, memory, described.gpu.tlb), std::move(check_interrupt)),
        tasks(devices, simulated, memory, states) {}

  store_path unified_stores = store_path::packets;
  const std::deque<counts_by_device>& updates;
  arena memory;
  std::uint64_t placed_in_turn = 0;  // number of pages placed in turn so far
  simulation simulated;
  // The index is the id of a region or reduction. Reductions have null.
  std::vector<std::unique_ptr<kernel::use_tracker>> trackers;
  // The index is the id of a region. The entry is null if every subscriber of the region holds all
  // pages of the region.
  std::vector<std::unique_ptr<subscribed_pages>> subscribed;
  streams tasks;
  std::vector<iteration_end> iterations;  // the ends of all runs' iterations, in order
  std::deque<device_ends> ending;         // for each iteration of this run, the end on each device
  iteration_end run;                      // the end of the last run
  std::string record_to;  // path of the file to record to; if empty, nothing is recorded
  std::unique_ptr<trace::writer> recording;

  // Everything that a device has counted. A count that all devices share has the same value for
  // each device.
  totals counted_by(std::uint32_t device, const std::vector<kernel::region_state>& states) const {
    totals found;
    found.gpus = simulated.counters_of(device);
    found.copies = simulated.sent_by(device).copies;
    found.flags = simulated.sent_by(device).flags;
    found.copy_stores = simulated.sent_by(device).copy_stores;
    found.walk_wire = simulated.walked().wire;
    for (std::uint32_t id = 0; id < states.size(); ++id) {
      if (states[id].is_partition) {
        for (const update_counts& c : updates[id]) {
          const std::uint64_t bytes = states[id].element_bytes;
          found.used_bytes += (c.remote - c.combined) * bytes;
          if (c.packets == 0) continue;
          found.packing_bytes += c.packet_bytes - (c.remote - c.combined - c.without_room) * bytes;
        }
      }
      if (trackers[id]) found.used_bytes += trackers[id]->used() * states[id].element_bytes;
    }
    return found;
  }
  static void add(totals& sum, const totals& of_device) {
    add_counts(sum.gpus, of_device.gpus);
    sum.copies.payload += of_device.copies.payload;
    sum.copies.wire += of_device.copies.wire;
    sum.flags.payload += of_device.flags.payload;
    sum.flags.wire += of_device.flags.wire;
    sum.copy_stores += of_device.copy_stores;
    // These counts are the same for all devices, or they grow until the last device has counted.
    // The largest value is therefore the right one.
    sum.walk_wire = std::max(sum.walk_wire, of_device.walk_wire);
    sum.used_bytes = std::max(sum.used_bytes, of_device.used_bytes);
    sum.packing_bytes = std::max(sum.packing_bytes, of_device.packing_bytes);
  }
  totals counted_of_all(const std::vector<kernel::region_state>& states) const {
    totals sum;
    for (std::uint32_t d = 0; d < tasks.devices(); ++d) add(sum, counted_by(d, states));
    sum.walk_wire += sum.gpus.translations.wire;
    return sum;
  }
  void end_iterations() {
    for (const device_ends& of_devices : ending) {
      iteration_end& all = iterations.emplace_back();
      for (const iteration_end& one : of_devices) {
        all.time = std::max(all.time, one.time);
        add(all.counted, one.counted);
      }
      all.counted.walk_wire += all.counted.gpus.translations.wire;
    }
    ending.clear();
  }
  void add_counts_to(kernel::run_result& result, const totals& all) const;
};

node::node(const machine::machine& described, std::uint32_t devices,
           std::function<void()> check_interrupt)
    : cpu_node(devices),
      parts_(std::make_unique<parts>(described, devices, std::move(check_interrupt), states_,
                                     update_counters())),
      warp_width_(described.gpu.warp_width) {
  // Only the first epochs are recorded. They show the pattern, and a page with thousands of bars
  // would be unreadable.
  parts_->simulated.record_timeline(std::size_t{64} * devices);
}

node::~node() = default;

void node::record(const std::string& path) {
  if (!parts_->simulated.addresses().homes.empty())
    throw usage_error("unified memory cannot be recorded");
  parts_->record_to = path;
}

void node::start_recording() {
  if (parts_->record_to.empty() || parts_->recording) return;
  trace::header h;
  h.gpus = devices();
  h.warp_width = parts_->simulated.described().gpu.warp_width;
  for (std::uint32_t d = 0; d < devices(); ++d) {
    const std::uint64_t begin = std::uint64_t{d} << parts_->memory.slot_bits();
    if (parts_->memory.used(d) != 0)
      h.ranges.push_back(
          {.begin = begin, .end = begin + parts_->memory.used(d), .gpu = d, .page_bytes = 0});
  }
  h.source = "simulated " + parts_->simulated.described().name;
  parts_->recording = std::make_unique<trace::writer>(parts_->record_to, h);
  parts_->simulated.record(parts_->recording.get());
}

void node::finish_recording() {
  if (!parts_->recording) throw usage_error("nothing that could be recorded was run");
  parts_->simulated.record(nullptr);
  parts_->recording->finish();
  parts_->recording.reset();
  parts_->record_to.clear();
}

void* node::take(std::uint32_t device, std::uint64_t bytes) {
  if (parts_->recording) throw model_error("memory is taken while a run is recorded");
  return parts_->memory.take(device, bytes);
}

void* node::take_unified(std::uint64_t bytes, const kernel::page_placement& pages) {
  if (!parts_->record_to.empty()) throw usage_error("unified memory cannot be recorded");
  auto& map = parts_->simulated.addresses();
  // The slot is cut into whole pages, so that every array begins at a page.
  const std::uint64_t count = (bytes + map.page_bytes - 1) / map.page_bytes;
  std::byte* data = parts_->memory.take(devices(), count * map.page_bytes);
  for (std::uint64_t k = 0; k < count; ++k) {
    map.homes.push_back(static_cast<std::uint8_t>(
        kernel::home_of_page(pages, k, count, parts_->placed_in_turn, devices())));
  }
  if (pages.how == kernel::page_placement::kind::round_robin) parts_->placed_in_turn += count;
  return data;
}

void node::adding(std::uint32_t /*id*/, const kernel::region_state& state) {
  const auto which = state.options.mechanism;
  const region_mechanism& how = simulated(which);
  if (state.is_region()) how.check(state);
  if (state.is_region() && !state.options.transfers && !kernel::tracks_chunks(which)) {
    throw usage_error(std::string(kernel::mechanism_name(which)) +
                      " tracks no chunks, so a run without transfers measures nothing; take a "
                      "mechanism that tracks chunks");
  }
  if (devices() > 1) check_store_path(parts_->simulated.described(), how.path());
  parts_->trackers.push_back(!state.is_region()
                                 ? nullptr
                                 : std::make_unique<kernel::use_tracker>(devices(), state.elements,
                                                                         state.options.boundaries));
  parts_->subscribed.push_back(
      !state.is_region() || devices() == 1
          ? nullptr
          : how.subscribe(state, parts_->tasks, parts_->simulated.described()));
}

recorder::settings node::recorded_by(std::uint32_t device) const {
  recorder::settings record;
  record.warp_width = parts_->simulated.described().gpu.warp_width;
  record.line_bytes = parts_->simulated.described().gpu.l1.line_bytes;
  record.sector_bytes = parts_->simulated.described().gpu.l1.sector_bytes;
  record.address_base = parts_->memory.base();
  record.device = device;
  record.votes = parts_->simulated.described().gpu.issue.vote_latency != 0;
  record.reduces = parts_->simulated.described().gpu.issue.reduction_latency != 0;
  record.unrolls = parts_->simulated.described().gpu.issue.loop_latency != 0;
  record.minimum_inputs = parts_->simulated.described().gpu.issue.minimum_inputs;
  record.watch_words = !parts_->simulated.addresses().homes.empty();
  for (const auto& t : parts_->trackers) record.regions.push_back(t.get());
  const auto there = [](const auto& s) { return s != nullptr; };
  if (std::any_of(parts_->subscribed.begin(), parts_->subscribed.end(), there)) {
    for (const auto& s : parts_->subscribed) record.subscribed.push_back(s.get());
    record.slot_bits = parts_->memory.slot_bits();
  }
  return record;
}

kernel::trace_totals node::trace_blocks(std::uint32_t device, grid shape,
                                        const block_function& block) const {
  if (!parts_->simulated.idle()) throw model_error("trace was called inside of run");
  kernel::trace_totals totals;
  recorder::settings record = recorded_by(device);
  record.regions.assign(parts_->trackers.size(), nullptr);
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

void node::use_threads(std::uint32_t threads) {
  parts_->simulated.use_threads(threads);
  parts_->memory.use_threads(threads);
}

void node::check_deliveries() { parts_->simulated.check_deliveries(parts_->memory.base()); }

std::uint64_t node::checked_packets() const {
  return parts_->simulated.deliveries() == nullptr ? 0 : parts_->simulated.deliveries()->packets();
}

void node::treat_loads(const kernel::remote_load_options& options) {
  if (options.pack) {
    check_store_path(parts_->simulated.described(), store_path::packed);
    parts_->unified_stores = store_path::packed;
  }
  parts_->simulated.treat_loads(make_load_mechanism(options, parts_->simulated.parts()));
}

void node::enqueue_kernel(std::uint32_t device, grid shape, const block_function& block,
                          compiled_kernel code, std::uint32_t region,
                          const kernel::block_mapping* mapping) {
  recorder::settings record = recorded_by(device);
  record.code = code;
  if (region == none) {
    parts_->tasks.add_kernel(device, shape, std::move(record), block, parts_->unified_stores);
    return;
  }
  const auto which = states_[region].options.mechanism;
  const region_mechanism& how = simulated(which);
  record.stores_inline = kernel::row_of(which).stores_inline;
  if (devices() == 1) {
    parts_->tasks.add_kernel(device, shape, std::move(record), block, how.path());
    return;
  }
  how.launch({.device = device,
              .shape = shape,
              .record = std::move(record),
              .block = block,
              .region = region,
              .mapping = *mapping},
             parts_->tasks);
}

void node::enqueue_updates(std::uint32_t device, grid shape, const block_function& block,
                           compiled_kernel code, std::uint32_t partition) {
  const kernel::region_state& state = states_[partition];
  shape.shared_bytes += kernel::packing_bytes(state, shape.threads, warp_width_);
  recorder::settings record = recorded_by(device);
  record.in_turn = true;
  record.code = code;
  parts_->tasks.add_kernel(device, shape, std::move(record), block,
                           simulated(state.options.mechanism).path());
}

void node::enqueue_share(std::uint32_t device, grid shape, const block_function& block,
                         compiled_kernel code, kernel::block_share share) {
  shape.blocks = share.count;
  enqueue_kernel(
      device, shape,
      [block, share](std::uint64_t index, recorder& r, kernel::block_memory& m) {
        block(share.first + index * share.stride, r, m);
      },
      code, none, nullptr);
}

void node::enqueue_exchange(const std::vector<std::uint32_t>& ids) {
  if (untimed_) {
    for (const std::uint32_t id : ids) exchange_now(id);
    return;
  }
  region_exchange work;
  std::uint32_t payload = 0;
  // For each partition, its id and its parity before the epoch.
  std::vector<std::pair<std::uint32_t, std::uint32_t>> partitions;
  for (const std::uint32_t id : ids) {
    kernel::region_state& state = states_[id];
    if (state.is_partition) {
      partitions.emplace_back(id, state.parity);
      if (devices() > 1 && kernel::row_of(state.options.mechanism).updates_partials) {
        add_contributions(id, work);
      }
      state.parity ^= 1U;
      continue;
    }
    if (state.is_reduction) {
      payload += static_cast<std::uint32_t>(state.elements * state.element_bytes);
      work.arrived.emplace_back([this, id] { fold(id); });
      continue;
    }
    work.arrived.emplace_back(
        [tracker = parts_->trackers[id].get(), pages = parts_->subscribed[id].get()] {
          tracker->end_epoch();
          if (pages != nullptr) pages->end_epoch();
        });
    simulated(state.options.mechanism).exchange(id, parts_->tasks, work);
    state.parity ^= 1U;
  }
  std::vector<std::vector<task_id>> after;
  for (std::uint32_t d = 0; d < devices(); ++d) {
    std::vector<task_id> before = parts_->tasks[d].last;
    before.insert(before.end(), parts_->tasks[d].copies.begin(), parts_->tasks[d].copies.end());
    after.push_back(std::move(before));
  }
  const auto tasks = parts_->simulated.add_exchange(
      after, payload, work.instant, std::move(work.appears), [arrived = std::move(work.arrived)] {
        for (const auto& f : arrived) f();
      });
  for (std::uint32_t d = 0; d < devices(); ++d) {
    parts_->tasks[d].last = {tasks[d]};
    parts_->tasks[d].copies.clear();
    parts_->tasks[d].last_copy.assign(devices(), none);
  }
  for (const auto& [id, parity] : partitions) launch_arrivals(id, parity);
}

void node::add_contributions(std::uint32_t id, region_exchange& work) {
  if (kernel::row_of(states_[id].options.mechanism).bound) {
    work.instant = true;
    work.arrived.emplace_back([this, id] { fold(id); });
    return;
  }
  for (std::uint32_t d = 0; d < devices(); ++d) {
    for (const kernel::contribution& c : kernel::contributions_of(states_[id], d)) {
      parts_->tasks.add_copy_to(d, c.to, c.from, c.inbox, c.bytes);
    }
  }
}

void node::call(std::uint32_t device, kernel::library_call c) {
  kernel::check_call(c, c.on_cpu, device, devices());
  if (untimed_) {
    c.on_cpu();
    untimed_work_[device] += c.bytes_read + c.bytes_written;
    return;
  }
  auto& last = parts_->tasks[device].last;
  std::vector<std::uint64_t> swept;
  for (const kernel::library_sweep& s : c.sweeps) swept.push_back(parts_->memory.address(s.data));
  last = {parts_->simulated.add_call(device, std::move(c), std::move(swept), last)};
}

kernel::run_result node::finish() {
  if (untimed_) throw model_error("this simulated node cannot run after run_untimed");
  const picoseconds time = parts_->simulated.run();
  bool open = false;
  for (std::uint32_t d = 0; d < devices(); ++d) {
    streams::stream& s = parts_->tasks[d];
    open = open || !s.copies.empty() || !s.tracked.empty();
    s.last.clear();
    s.copies.clear();
    s.tracked.clear();
  }
  if (open) throw model_error("a run ends with a launch whose region is not exchanged");
  parts_->end_iterations();
  parts_->run = {time, parts_->counted_of_all(states_)};
  kernel::run_result result;
  result.time_s = seconds_of(time);
  result.timeline = parts_->simulated.take_timeline();
  result.observed = parts_->simulated.observe();
  parts_->add_counts_to(result, parts_->run.counted);
  return result;
}

void node::end_iteration() {
  std::vector<std::vector<task_id>> after;
  for (std::uint32_t d = 0; d < devices(); ++d) {
    after.push_back(parts_->tasks[d].last);
    after.back().insert(after.back().end(), parts_->tasks[d].copies.begin(),
                        parts_->tasks[d].copies.end());
  }
  parts::device_ends& ends = parts_->ending.emplace_back(devices());
  const auto ended = [this, &ends](std::uint32_t device, picoseconds time) {
    ends[device] = {time, parts_->counted_by(device, states_)};
  };
  parts_->simulated.end_iteration(after, ended);
}

bool node::iterations_repeat() const {
  const auto work = [this](std::size_t back) { return parts_->simulated.work_of_ended(back); };
  return parts_->iterations.size() > 2 && work(0) == work(1) && work(1) == work(2);
}

void node::begin_untimed() {
  if (!parts_->simulated.idle()) throw model_error("run_untimed was called inside of run");
  untimed_ = true;
  untimed_work_.assign(devices(), 0);
}

bool node::same_work() const {
  return !parts_->iterations.empty() && untimed_work_ == parts_->simulated.work_of_ended(0);
}

kernel::run_result node::with_more(kernel::run_result run, std::uint64_t times) const {
  const auto& ends = parts_->iterations;
  if (ends.size() < 3) throw model_error("a run of fewer than three iterations does not repeat");
  const parts::iteration_end& begin = ends[ends.size() - 3];
  picoseconds time = parts_->run.time;
  parts::totals counted = parts_->run.counted;
  const auto add = [&](const parts::iteration_end& until, std::uint64_t more) {
    time += more * (until.time - begin.time);
    counted = counts_with_more(counted, begin.counted, until.counted, more);
  };
  add(ends.back(), times / 2);
  add(ends[ends.size() - 2], times % 2);
  run.time_s = seconds_of(time);
  parts_->add_counts_to(run, counted);
  return run;
}

double node::repeated_iteration_s() const {
  const auto& ends = parts_->iterations;
  return seconds_of(ends.back().time - ends[ends.size() - 3].time) / 2;
}

std::uint32_t node::compute_units() const {
  return parts_->simulated.described().gpu.compute_units;
}

std::uint64_t node::threads_at_once(std::uint32_t /*device*/) const {
  if (!threads_told_) return 0;
  const machine::gpu& g = parts_->simulated.described().gpu;
  return std::uint64_t{g.compute_units} * g.max_warps * g.warp_width;
}

void node::parts::add_counts_to(kernel::run_result& result, const totals& all) const {
  const gpu_counters& c = all.gpus;
  const load_mechanism::outcome treated = simulated.treated_loads();
  const page_traffic& pages = treated.moved;
  const auto used = static_cast<double>(all.used_bytes);
  const auto payload = static_cast<double>(c.stored_payload() + all.copies.payload);
  const auto wire = static_cast<double>(c.stored_wire() + c.read_wire + all.copies.wire +
                                        all.flags.wire + pages.wire + all.walk_wire);
  const auto reads = static_cast<double>(c.read_payload + pages.payload);
  result.wire_known = true;
  result.wire.useful = std::min(used, payload) + static_cast<double>(all.flags.payload) + reads;
  // A packet of updates has a header, the positions of the elements, and padding. These bytes are
  // not values.
  const auto packing = static_cast<double>(all.packing_bytes);
  result.wire.wasted = payload - std::min(used, payload) - packing;
  result.wire.protocol = packing + wire - payload - reads - static_cast<double>(all.flags.payload);
  result.accesses = c.accesses;
  result.remote_transactions = c.remote_transactions() + all.copy_stores;
  result.stores = static_cast<const kernel::remote_store_counts&>(c.stores);
  if (simulated.addresses().homes.empty()) return;
  const auto mean = [](picoseconds sum, std::uint64_t n) {
    return n == 0 ? 0.0 : seconds_of(sum) / static_cast<double>(n);
  };
  kernel::remote_load_counts& loads = result.loads;
  loads.vector_accesses = c.accesses - c.scalar;
  loads.scalar_accesses = c.scalar;
  loads.local = c.loads.local;
  loads.remote = c.loads.remote;
  loads.hits = c.loads.hits;
  loads.useful_bytes = c.loads.words * 4;
  loads.local_stores = c.loads.local_stores;
  loads.remote_stores = c.loads.remote_stores;
  loads.requests = c.reads;
  loads.reply_bytes = c.read_payload;
  loads.wire = c.read_wire;
  loads.mean_latency_s = mean(c.read_latency, c.reads);
  loads.bypassed = c.loads.bypassed;
  loads.mask_hits = c.loads.mask_hits;
  loads.mask_misses = c.loads.mask_misses;
  loads.coalesced = c.loads.coalesced;
  loads.timeouts = c.loads.timeouts;
  loads.pieces = c.loads.pieces;
  loads.cache_hits = c.loads.cache_hits;
  loads.cache_misses = c.loads.cache_misses;
  loads.by_words = c.loads.by_words;
  loads.coalesced_pages = treated.coalesced_pages;
  loads.cached_pages = treated.cached_pages;
  loads.migrated_pages = pages.pages;
  loads.migrated_again = treated.moved_again;
  loads.delayed_touches = treated.delayed;
  loads.migration_batches = treated.batches;
  loads.l2_loads = c.loads.l2_loads;
  loads.l2_hits = c.loads.l2_hits;
  loads.mean_wait_s = mean(c.loads.waited, c.loads.instructions);
  loads.mean_in_links_s = mean(c.loads.in_links, c.reads);
  loads.tlb_hits = c.translations.l1_hits;
  loads.tlb_misses = c.translations.l1_misses;
  loads.l2_tlb_hits = c.translations.l2_hits;
  loads.l2_tlb_misses = c.translations.l2_misses;
  loads.walks = c.translations.walks;
  loads.walk_wire = all.walk_wire;
  loads.mean_walk_s = mean(c.translations.walk_latency, c.translations.walks);
  loads.decisions = treated.decisions;
}

}  // namespace interlace::sim
