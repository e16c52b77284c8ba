#include "sim/tasks/simulation.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <optional>
#include <thread>

#include "base/units.hpp"
#include "interlace/base/errors.hpp"
#include "sim/engine/add_counts.hpp"
#include "sim/fabric/protocol.hpp"

namespace interlace::sim {

using kernel::mechanism;

namespace {
constexpr std::uint32_t flag_bytes = 8;
}

simulation::simulation(const machine::machine& described, address_map addresses,
                       std::function<void()> check_interrupt)
    : machine_(described),
      addresses_(std::move(addresses)),
      check_interrupt_(std::move(check_interrupt)),
      queues_(described.gpu_count + 2),
      fabric_(machine_, each_queue(), *this),
      early_(described.gpu_count),
      library_kernels_(described.gpu_count),
      running_kernel_(described.gpu_count, none),
      running_tracked_(described.gpu_count, nullptr),
      iteration_work_(1, std::vector<std::uint64_t>(described.gpu_count)),
      worked_(described.gpu_count),
      lanes_(std::size_t{3} * described.gpu_count),
      launchers_(described.gpu_count),
      activity_(described.gpu_count),
      sent_(described.gpu_count),
      timelines_(described.gpu_count) {
  for (std::uint32_t d = 0; d < described.gpu_count; ++d) {
    // All copies of a simulation go to other GPUs.
    const std::uint32_t peers = machine_.gpu.copy_peer_engines;
    lanes_[d].at_once = peers != 0 ? peers : std::max(1U, machine_.gpu.copy_engines);
    lanes_[2 * described.gpu_count + d].at_once = descriptors_at_once;
  }
  for (std::uint32_t d = 0; d < described.gpu_count; ++d) {
    gpus_.push_back(std::make_unique<gpu>(d, machine_.gpu, addresses_, queues_[d], fabric_));
    queued_stores_.push_back(std::make_unique<queued_stores>(*gpus_[d], queues_[d], fabric_));
  }
  if (machine_.gpu.tlb.page_bytes == 0) return;
  iommu_ = std::make_unique<iommu>(machine_.gpu.tlb, machine_.gpu_count, queues_[host()], fabric_);
}

std::vector<event_queue*> simulation::each_queue() {
  std::vector<event_queue*> found;
  for (event_queue& q : queues_) found.push_back(&q);
  return found;
}

hardware simulation::parts() {
  hardware parts{.described = machine_,
                 .addresses = addresses_,
                 .queue = queues_[host()],
                 .links = fabric_,
                 .gpus = {},
                 .page_walks = iommu_.get()};
  for (const auto& g : gpus_) parts.gpus.push_back(g.get());
  return parts;
}

task_id simulation::add_task(task_kind kind, std::uint32_t device, std::uint32_t work,
                             const std::vector<task_id>& after, std::uint32_t holds) {
  const auto id = static_cast<task_id>(tasks_.size());
  task t;
  t.kind = kind;
  t.device = device;
  t.work = work;
  t.waits_for = holds;
  for (const task_id before : after) {
    if (tasks_[before].ended) continue;
    if (tasks_[before].device != device) crossing_ = true;
    tasks_[before].next.push_back(id);
    ++t.waits_for;
  }
  if (t.waits_for == 0) startable_.push_back(id);
  tasks_.push_back(std::move(t));
  ++unfinished_;
  return id;
}

task_id simulation::add_kernel(std::uint32_t device, grid shape, recorder::settings record,
                               block_function block, const std::vector<task_id>& after,
                               std::shared_ptr<tracked_launch> tracked, store_path path) {
  if (log_ != nullptr) {
    if (tracked) {
      throw usage_error(
          std::string(
              "a mechanism that tracks chunks cannot be recorded: a trace does not say when a "
              "chunk is complete; record ") +
          kernel::mechanism_name(mechanism::bulk_copy) + ", " +
          kernel::mechanism_name(mechanism::split) + " or " +
          kernel::mechanism_name(mechanism::inline_stores));
    }
    record.log = log_;
    record.launch = logged_launches_++;
    log_->program(trace::launch{.gpu = device,
                                .blocks = shape.blocks,
                                .threads = shape.threads,
                                .shared_bytes = shape.shared_bytes,
                                .name = "",
                                .after = after});
  }
  if (record.in_turn) crossing_ = true;
  kernels_.push_back({.shape = shape,
                      .record = std::move(record),
                      .block = std::move(block),
                      .tracked = std::move(tracked),
                      .path = path,
                      .iteration = iteration_work_.size() - 1});
  return add_task(task_kind::kernel, device, static_cast<std::uint32_t>(kernels_.size() - 1),
                  after);
}

task_id simulation::add_call(std::uint32_t device, kernel::library_call call,
                             std::vector<std::uint64_t> swept, const std::vector<task_id>& after) {
  if (log_ != nullptr) {
    const auto& n = call.operations;
    log_->program(trace::call{.gpu = device,
                              .name = call.name,
                              .bytes_read = call.bytes_read,
                              .bytes_written = call.bytes_written,
                              .operations = {n.fp32, n.fp64, n.integer, n.special},
                              .after = after});
  }
  calls_.push_back({std::move(call), std::move(swept), iteration_work_.size() - 1});
  return add_task(task_kind::call, device, static_cast<std::uint32_t>(calls_.size() - 1), after);
}

task_id simulation::add_copy(copy_request request, const std::vector<task_id>& after) {
  for (const destination& d : request.to) {
    if (fabric_.reaches(request.from, d.to)) continue;
    throw usage_error("no link leads from gpu" + std::to_string(request.from) + " to gpu" +
                      std::to_string(d.to) + " on machine " + machine_.name);
  }
  if (log_ != nullptr) log_copy(request, after);
  copy_work c;
  const machine::gpu& g = machine_.gpu;
  const std::uint32_t from = request.from;
  // As in src/cuda/region/agent.cu, each thread has eight loads of 16 bytes in flight. Each load
  // takes one round trip to the L2.
  const double under_way = 128.0 * request.threads / request.at_once;
  switch (request.by) {
    case mover::agent:
    case mover::child:
      c.stores = true;
      c.posted = true;
      c.bytes_per_s = under_way / seconds_of(g.l2.hit_latency_ps);
      c.window = std::max(0.0, under_way / segment_bytes - 1);
      if (request.by == mover::child) break;
      c.notice = g.poll_ps;
      c.lane = machine_.gpu_count + from;
      lanes_[c.lane].at_once = request.at_once;
      break;
    case mover::descriptors:
      // The mover must read the descriptor from the device's memory.
      c.notice = g.l2.hit_latency_ps + g.dram.latency_ps;
      c.lane = 2 * machine_.gpu_count + from;
      c.posted = true;
      break;
    case mover::engine:
    case mover::host:
    case mover::waiting:
      c.lane = from;
      c.setup = g.copy_setup_ps + (request.by == mover::host      ? g.copy_host_ps
                                   : request.by == mover::waiting ? g.copy_wait_ps
                                                                  : 0);
      break;
  }
  if (!c.stores) {
    c.bytes_per_s = g.copy_bytes_per_s;
    c.window = c.bytes_per_s * engine_window_s / segment_bytes;
  }
  const std::uint32_t holds = request.held ? 1 : 0;
  c.what = std::move(request);
  c.arriving = static_cast<std::uint32_t>(c.what.to.size());
  c.arrived_bytes.assign(c.arriving, 0);
  copies_.push_back(std::move(c));
  const auto work = static_cast<std::uint32_t>(copies_.size() - 1);
  copies_[work].task = add_task(task_kind::copy, from, work, after, holds);
  return copies_[work].task;
}

void simulation::log_copy(const copy_request& request, const std::vector<task_id>& after) const {
  if ((request.by != mover::engine && request.by != mover::host) || request.held ||
      request.to.size() != 1) {
    throw usage_error(std::string("a trace can hold only copies by copy engines; record ") +
                      kernel::mechanism_name(mechanism::bulk_copy) + " or " +
                      kernel::mechanism_name(mechanism::inline_stores));
  }
  log_->program(trace::copy{
      .from = request.from,
      .to = request.to.front().to,
      .by = request.by == mover::host ? trace::copy_start::by_host : trace::copy_start::stream,
      .from_address = request.address,
      .to_address = request.to.front().address,
      .bytes = request.bytes,
      .after = after});
}

std::vector<task_id> simulation::add_exchange(const std::vector<std::vector<task_id>>& after,
                                              std::uint32_t payload, bool instant,
                                              std::vector<trace::stretch> appears,
                                              std::function<void()> all_arrived) {
  if (log_ != nullptr)
    log_->program(trace::exchange{
        .payload = payload, .instant = instant, .after = after, .appears = appears});
  const auto work = static_cast<std::uint32_t>(exchanges_.size());
  exchange_work x;
  x.payload = payload;
  x.instant = instant;
  x.flags.assign(after.size(), 0);
  x.appears = std::move(appears);
  x.all_arrived = std::move(all_arrived);
  exchanges_.push_back(std::move(x));
  for (std::uint32_t d = 0; d < after.size(); ++d) {
    exchanges_[work].tasks.push_back(add_task(task_kind::exchange, d, work, after[d]));
  }
  return exchanges_[work].tasks;
}

void simulation::end_iteration(
    const std::vector<std::vector<task_id>>& after,
    const std::function<void(std::uint32_t device, picoseconds time)>& ended) {
  marks_.push_back(ended);
  for (std::uint32_t d = 0; d < after.size(); ++d) {
    add_task(task_kind::mark, d, static_cast<std::uint32_t>(marks_.size() - 1), after[d]);
  }
  iteration_work_.emplace_back(machine_.gpu_count);
}

picoseconds simulation::run() {
  if (failed_) throw model_error("this simulated node cannot be used after a run that failed");
  failed_ = true;
  picoseconds begin = 0;
  for (const event_queue& q : queues_) begin = std::max(begin, q.now());
  timeline_start_ = begin;
  std::vector<task_id> first;
  first.swap(startable_);
  // If devices share pages, or if remote loads are treated in a special way, an event can concern
  // several devices at once. In these cases, all devices use one queue.
  const bool together = loads_ || iommu_ || !addresses_.homes.empty();
  for (event_queue& q : queues_) {
    q.use_clock(nullptr);
    q.pass_to(begin);
    q.forward(together ? &queues_.front() : nullptr);
  }
  for (const task_id id : first) start(id);
  const picoseconds end_time = std::max(begin, run_events());
  check_announcements();
  if (unfinished_ != 0) throw model_error("the simulation stopped with tasks that cannot start");
  check_conservation();
  if (log_ != nullptr) log_->program(trace::join{});
  activity_.settle(end_time);
  ended_ = end_time;
  tasks_.clear();
  kernels_.clear();
  copies_.clear();
  exchanges_.clear();
  calls_.clear();
  marks_.clear();
  crossing_ = false;
  std::fill(running_tracked_.begin(), running_tracked_.end(), nullptr);
  for (const auto& g : gpus_) g->forget_announced();
  failed_ = false;
  return end_time - begin;
}

// --- The order of events

bool simulation::can_run_apart() const {
  return gpus_.size() > 1 && stretch() != 0 && !loads_ && !iommu_ && addresses_.homes.empty() &&
         log_ == nullptr && !check_ && !crossing_;
}

picoseconds simulation::stretch() const {
  return std::min(fabric_.look_ahead(), machine_.gpu.kernel_launch_ps);
}

picoseconds simulation::run_events() {
  std::optional<crew> helpers;
  if (threads_ > 1 && !check_) {
    helpers.emplace(threads_ - 1, [this](std::uint32_t helper) { return help(helper); });
  }
  helpers_ = helpers ? &*helpers : nullptr;
  for (const auto& g : gpus_) g->use_helpers(helpers_);
  const picoseconds ended = can_run_apart() ? run_apart() : run_in_order();
  helpers_ = nullptr;
  return ended;
}

picoseconds simulation::run_in_order() {
  picoseconds end_time = 0;
  const bool outlasted = loads_ && loads_->outlasts_tasks();
  picoseconds clock = 0;
  for (event_queue& q : queues_) q.use_clock(&clock);
  std::uint64_t handled = 0;
  while (true) {
    // If several events have the same time, meetings are handled first. After the meetings, the
    // events of devices with lower numbers come first.
    event_queue* first = &queues_[meeting()];
    for (std::uint32_t d = 0; d <= host(); ++d) {
      if (queues_[d].next() < first->next()) first = &queues_[d];
    }
    if (first->empty()) break;
    const event e = first->pop([this](const std::vector<event>& events) { prefetch(events); });
    // An event for which nothing waits does not make the run longer. A page that still moves at the
    // end does not make the run longer either.
    if (lengthens_run(e.kind) && !(outlasted && unfinished_ == 0)) end_time = e.time;
    handle(e);
    if ((++handled & 0xfffffU) == 0) check_interrupt_();
  }
  for (event_queue& q : queues_) q.use_clock(nullptr);
  return end_time;
}

picoseconds simulation::run_apart() {
  const picoseconds length = stretch();
  ended_at_.assign(queues_.size(), {});
  picoseconds mail = event_queue::never;
  picoseconds met = 0;
  std::uint64_t unchecked = 0;
  while (true) {
    picoseconds first = mail;
    for (std::uint32_t d = 0; d <= host(); ++d) first = std::min(first, queues_[d].next());
    const picoseconds meets = queues_[meeting()].next();
    if (first == event_queue::never && meets == event_queue::never) break;
    if (meets <= first) {
      for (std::uint32_t d = 0; d <= host(); ++d) fabric_.receive(d);
      mail = event_queue::never;
      meet(meets);
      met = meets;
      continue;
    }
    run_stretch(std::min(meets, first + length));
    mail = fabric_.end_stretch();
    fabric_.receive(meeting());
    for (const auto& q : queued_stores_) q->queues().take_back();
    unchecked += handled_;
    if (unchecked > 0xfffffU) {
      check_interrupt_();
      unchecked = 0;
    }
  }
  for (const device_run& d : ended_at_) met = std::max(met, d.ended);
  return met;
}

// All devices wait while the events of a meeting are handled.
void simulation::meet(picoseconds time) {
  for (event_queue& q : queues_) q.pass_to(time);
  while (queues_[meeting()].next() == time) {
    handle(queues_[meeting()].pop([](const std::vector<event>&) {}));
  }
}

void simulation::run_stretch(picoseconds end) {
  stretch_end_ = end;
  active_.clear();
  for (std::uint32_t d = 0; d <= host(); ++d) {
    if (queues_[d].next() < end || fabric_.has_mail(d)) active_.push_back(d);
  }
  // Devices with many events come first. If they came last, a single thread could be left to handle
  // one of them.
  std::sort(active_.begin(), active_.end(), [this](std::uint32_t x, std::uint32_t y) {
    return ended_at_[x].handled != ended_at_[y].handled
               ? ended_at_[x].handled > ended_at_[y].handled
               : x < y;
  });
  apart_ = true;
  fabric_.keep_apart(true);
  left_.store(static_cast<std::uint32_t>(active_.size()), std::memory_order_relaxed);
  const std::uint64_t number = (claims_.load(std::memory_order_relaxed) >> 32U) + 1;
  claims_.store(number << 32U | active_.size() << 16U, std::memory_order_release);
  // A few events take less time than waking a thread.
  if (helpers_ != nullptr && active_.size() > 1 && handled_ > few_events) helpers_->wake();
  while (run_next_device()) {
  }
  for (std::uint32_t waits = 0; left_.load(std::memory_order_acquire) != 0; ++waits) {
    if (waits < 1000) {
      pause_briefly();
    } else {
      std::this_thread::yield();
    }
  }
  apart_ = false;
  fabric_.keep_apart(false);
  handled_ = 0;
  device_run* failed = nullptr;
  picoseconds failed_at = event_queue::never;
  for (const std::uint32_t d : active_) {
    handled_ += ended_at_[d].handled;
    if (!ended_at_[d].failed) continue;
    if (failed != nullptr && failed_at <= queues_[d].now()) continue;
    failed = &ended_at_[d];
    failed_at = queues_[d].now();
  }
  if (failed != nullptr) std::rethrow_exception(failed->failed);
}

bool simulation::run_next_device() {
  std::uint64_t claim = claims_.load(std::memory_order_acquire);
  while (true) {
    const std::uint64_t place = claim & 0xffffU;
    if (place >= (claim >> 16U & 0xffffU)) return false;
    if (claims_.compare_exchange_weak(claim, claim + 1, std::memory_order_acq_rel)) {
      run_device(active_[place]);
      left_.fetch_sub(1, std::memory_order_acq_rel);
      return true;
    }
  }
}

void simulation::run_device(std::uint32_t device) {
  device_run& run = ended_at_[device];
  run.handled = 0;
  try {
    fabric_.receive(device);
    event_queue& queue = queues_[device];
    while (queue.next() < stretch_end_) {
      const event e = queue.pop([this](const std::vector<event>& events) { prefetch(events); });
      if (lengthens_run(e.kind)) run.ended = e.time;
      handle(e);
      ++run.handled;
    }
  } catch (...) {
    run.failed = std::current_exception();
  }
}

// Each helper begins with another GPU, so that two helpers rarely try to take the same GPU.
bool simulation::help(std::uint32_t helper) {
  if (run_next_device()) return true;
  for (early_work& e : early_) {
    if (e.help()) return true;
  }
  for (std::size_t k = 0; k < gpus_.size(); ++k) {
    if (gpus_[(helper + k) % gpus_.size()]->record_ahead()) return true;
  }
  return false;
}

// --- Tasks

void simulation::start(task_id id) {
  task& t = tasks_[id];
  const picoseconds now = queues_[t.device].now();
  t.started = now;
  if (t.kind == task_kind::kernel) {
    push(now + machine_.gpu.kernel_launch_ps, event_kind::kernel_begins, t.device, id);
  } else if (t.kind == task_kind::call) {
    push(now + machine_.gpu.kernel_launch_ps, event_kind::call_steps, t.device, id);
  } else if (t.kind == task_kind::copy && copies_[t.work].lane == none) {
    launch_child(t.work);
  } else if (t.kind == task_kind::copy && copies_[t.work].notice != 0) {
    push(now + copies_[t.work].notice, event_kind::copy_noticed, t.device, t.work);
  } else if (t.kind == task_kind::copy) {
    enter_lane(t.work);
  } else if (t.kind == task_kind::mark) {
    marks_[t.work](t.device, now - timeline_start_);
    end(id);
  } else {
    // A small kernel combines values, signals the other devices and waits for them. Before it sends
    // flags, it releases earlier stores.
    const exchange_work& x = exchanges_[t.work];
    const bool alone = x.instant || x.flags.size() == 1;
    const picoseconds cost = machine_.gpu.kernel_launch_ps + (alone ? 0 : machine_.gpu.fence_ps);
    fabric_.post(t.device, meeting(), now + cost, event_kind::exchange_signals, t.device, t.work,
                 0);
  }
}

void simulation::note(const task& t) {
  std::vector<kernel::timeline_event>& timeline = timelines_[t.device];
  if (timeline.size() >= timeline_limit_ || t.kind == task_kind::mark) return;
  static constexpr const char* tracks[] = {"kernel", "copy", "exchange", "kernel"};
  std::string name = tracks[static_cast<std::size_t>(t.kind)];
  if (t.kind == task_kind::copy) {
    const auto& to = copies_[t.work].what.to;
    name = "to gpu" + std::to_string(to.front().to);
    for (std::size_t k = 1; k < to.size(); ++k) name += ", " + std::to_string(to[k].to);
  }
  if (t.kind == task_kind::call) name = calls_[t.work].call.name;
  timeline.push_back({.device = t.device,
                      .track = tracks[static_cast<std::size_t>(t.kind)],
                      .name = std::move(name),
                      .start_s = seconds_of(t.started - timeline_start_),
                      .end_s = seconds_of(queues_[t.device].now() - timeline_start_)});
}

void simulation::end(task_id id) {
  tasks_[id].ended = true;
  --unfinished_;
  note(tasks_[id]);
  for (const task_id next : tasks_[id].next) {
    if (--tasks_[next].waits_for == 0) start(next);
  }
}

// --- Copies

void simulation::start_copies(std::uint32_t which) {
  lane& l = lanes_[which];
  while (!l.waiting.empty() && l.busy < l.at_once) {
    const std::uint32_t work = l.waiting.front();
    l.waiting.pop_front();
    ++l.busy;
    begin_copy(work);
  }
}

void simulation::enter_lane(std::uint32_t copy) {
  lanes_[copies_[copy].lane].waiting.push_back(copy);
  start_copies(copies_[copy].lane);
}

void simulation::leave_lane(std::uint32_t copy) {
  const copy_work& c = copies_[copy];
  if (c.lane == none) {
    gpus_[c.what.from]->end_child(copy);
    return;
  }
  --lanes_[c.lane].busy;
  start_copies(c.lane);
}

void simulation::begin_copy(std::uint32_t copy) {
  copy_work& c = copies_[copy];
  const picoseconds now = queues_[c.what.from].now();
  tasks_[c.task].started = now;
  activity_.copy_begins(c.what.from, now);
  c.next_step = now + c.setup;
  if (c.what.moves) {
    schedule_step(copy);
    return;
  }
  push(c.next_step, event_kind::copy_ends, c.what.from, copy);
}

// An engine reads ahead of the link, as far as its buffer allows, and sends one segment after
// another.
void simulation::copy_step(std::uint32_t copy) {
  copy_work& c = copies_[copy];
  const picoseconds now = queues_[c.what.from].now();
  c.stepping = false;
  const auto bytes =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(segment_bytes, c.what.bytes - c.asked));
  const picoseconds read =
      gpus_[c.what.from]->second_level().stream_out(now, c.what.address + c.asked, bytes);
  c.asked += bytes;
  ++c.buffered;
  c.next_step = now + static_cast<picoseconds>(std::llround(bytes / c.bytes_per_s * 1e12));
  push(read, event_kind::segment_read, c.what.from, copy);
  schedule_step(copy);
}

void simulation::schedule_step(std::uint32_t copy) {
  copy_work& c = copies_[copy];
  if (c.stepping || c.asked == c.what.bytes || c.buffered > c.window) return;
  c.stepping = true;
  push(std::max(queues_[c.what.from].now(), c.next_step), event_kind::copy_steps, c.what.from,
       copy);
}

std::uint32_t simulation::copy_wire_bytes(const copy_work& c, std::uint32_t to,
                                          std::uint32_t payload) const {
  const machine::protocol& p = fabric_.protocol(c.what.from, to);
  if (!c.stores) return static_cast<std::uint32_t>(bulk_write_bytes(p, payload));
  const std::uint32_t line = machine_.gpu.l1.line_bytes;
  std::uint32_t wire = payload / line * write_packet_bytes(p, 0, line, false);
  if (payload % line != 0) wire += write_packet_bytes(p, 0, payload % line, false);
  return wire;
}

// The next segment is sent once the first links of all routes have taken the current segment.
void simulation::send_segment(std::uint32_t copy) {
  copy_work& c = copies_[copy];
  if (c.sending != 0 || c.ready == 0) return;
  --c.ready;
  message m;
  m.kind = message_kind::copy_segment;
  m.from = static_cast<std::uint8_t>(c.what.from);
  m.unit = copy;
  m.payload =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(segment_bytes, c.what.bytes - c.sent));
  const std::uint32_t line = machine_.gpu.l1.line_bytes;
  const bool last = c.sent + m.payload == c.what.bytes;
  m.lanes = last ? 1 : 0;
  sent_counts& by = sent_[c.what.from];
  m.packets = c.stores ? (m.payload + line - 1) / line : 0;
  m.stored = c.stores;
  for (m.entry = 0; m.entry < c.what.to.size(); ++m.entry) {
    const destination& d = c.what.to[m.entry];
    m.to = static_cast<std::uint8_t>(d.to);
    m.wire = copy_wire_bytes(c, d.to, m.payload);
    m.address = d.address + c.sent;
    by.copies.payload += m.payload;
    by.copies.wire += m.wire;
    if (c.stores) {
      by.copy_stores += m.packets;
    } else {
      const std::uint32_t most = fabric_.protocol(c.what.from, d.to).max_payload_bytes;
      m.packets = (m.payload + most - 1) / most;
    }
    ++c.sending;
    fabric_.send(queues_[c.what.from].now(), m);
  }
  c.sent += m.payload;
}

void simulation::end_copy(std::uint32_t copy) {
  const copy_request& what = copies_[copy].what;
  const bool held_to_the_end = !copies_[copy].posted || !what.moves;
  if (what.arrived) what.arrived();
  activity_.copy_ends(what.from, queues_[what.from].now());
  const task_id id = copies_[copy].task;
  if (held_to_the_end) leave_lane(copy);
  end(id);
}

// --- Kernels

void simulation::begin_kernel(task_id id) {
  const task& t = tasks_[id];
  if (running_kernel_[t.device] != none) throw model_error("two kernels of one device overlap");
  running_kernel_[t.device] = id;
  activity_.kernel_begins(t.device, queues_[t.device].now());
  const kernel_work& k = kernels_[t.work];
  if (k.tracked) running_tracked_[t.device] = k.tracked.get();
  queued_stores_[t.device]->begin(k.path);
  if (loads_) loads_->begin_kernel(t.device);
  gpus_[t.device]->start_kernel(k.shape, k.record, k.block, k.tracked ? k.tracked->agent_warps : 0);
}

void simulation::end_kernel(std::uint32_t device) {
  gpu& g = *gpus_[device];
  const picoseconds now = queues_[device].now();
  if (g.stores_arrived() > now) {
    push(g.stores_arrived(), event_kind::kernel_ends, device, 0);
    return;
  }
  // If the queues still hold stores, this event comes again once they have taken all stores.
  if (!queued_stores_[device]->release()) return;
  const task_id id = running_kernel_[device];
  running_kernel_[device] = none;
  activity_.kernel_ends(device, now);
  iteration_work_[kernels_[tasks_[id].work].iteration][device] += g.work() - worked_[device];
  worked_[device] = g.work();
  end(id);
}

// --- Kernels that a kernel launches

// The block that completed the chunk launches a kernel, and that kernel copies the chunk. If too
// many launches are pending, the block copies the chunk itself, and keeps its place until the copy
// is done.
void simulation::launch_child(std::uint32_t copy) {
  copy_work& c = copies_[copy];
  const machine::gpu& g = machine_.gpu;
  launcher& l = launchers_[c.what.from];
  if (l.pending >= g.device_launches_pending) {
    const tracked_launch& t = *running_tracked_[c.what.from];
    c.what.threads = t.threads_a_block;
    const double under_way = 128.0 * c.what.threads;
    c.bytes_per_s = under_way / seconds_of(g.l2.hit_latency_ps);
    c.window = std::max(0.0, under_way / segment_bytes - 1);
    gpus_[c.what.from]->place_child(copy, c.what.threads);
    return;
  }
  ++l.pending;
  c.pending = true;
  const picoseconds start =
      l.starts.reserve(queues_[c.what.from].now(), g.device_launch_interval_ps);
  push(start + g.device_launch_ps, event_kind::copy_noticed, c.what.from, copy);
}

// --- Library calls

// Each kind of operation has its own pipe, so the slowest pipe decides the time.
picoseconds simulation::operation_time(const kernel::operation_counts& n) const {
  const machine::gpu& g = machine_.gpu;
  double clocks = 0;
  const auto add = [&](std::uint64_t operations, std::uint32_t lanes) {
    clocks = std::max(clocks, static_cast<double>(operations) / lanes);
  };
  add(n.fp32, g.issue.fp32);
  add(n.fp64, g.issue.fp64);
  add(n.integer, g.issue.integer);
  add(n.special, g.issue.special);
  return static_cast<picoseconds>(std::llround(clocks / g.compute_units / g.clock_hz * 1e12));
}

// Moves a slice of a kernel's traffic, and returns the time when it is moved.
picoseconds simulation::move_slice(call_work& c, std::uint32_t device, std::uint64_t which,
                                   std::uint64_t slice) {
  memory& m = gpus_[device]->second_level();
  const picoseconds now = queues_[device].now();
  const auto place = [&](std::uint64_t bytes, std::uint64_t of) {
    return bytes * of / call_slices;
  };
  if (c.swept.empty()) {
    const auto part = [&](std::uint64_t bytes) {
      return place(bytes, slice + 1) - place(bytes, slice);
    };
    return m.stream_all(now, part(c.call.bytes_read), part(c.call.bytes_written));
  }
  picoseconds moved = now;
  for (std::size_t k = 0; k < c.swept.size(); ++k) {
    const kernel::library_sweep& s = c.call.sweeps[k];
    if (s.kernel != which) continue;
    const std::uint64_t first = place(s.bytes, slice);
    moved = std::max(moved, m.sweep(now, c.swept[k] + first, place(s.bytes, slice + 1) - first,
                                    s.writes, c.first_kernel + which, c.late));
  }
  return moved;
}

// A step of a library call. A call has `call_slices` steps for each of its kernels, and one more
// step for its end. A step requests a slice of the kernel's traffic. The request is due when the
// slice's share of the kernel's operations is done, but not before the traffic of the previous
// slice is done. The data of sweeps arrives with the latency of the L2, or of the memory if the
// data is in the memory. Each kernel except the first also costs a launch.
void simulation::call_step(task_id id, std::uint64_t step) {
  call_work& c = calls_[tasks_[id].work];
  const std::uint32_t device = tasks_[id].device;
  const picoseconds now = queues_[device].now();
  const std::uint64_t kernels = c.swept.empty() ? 1 : c.call.sweeps.back().kernel + 1;
  if (step == 0) {
    c.first_kernel = library_kernels_[device];
    library_kernels_[device] += kernels;
    // With shared pages, other GPUs may write to the call's arrays at the same time.
    c.offered =
        helpers_ != nullptr && addresses_.homes.empty() && early_[device].offer(c.call.on_cpu);
    if (c.offered) {
      helpers_->wake();
    } else {
      c.call.on_cpu();
    }
    iteration_work_[c.iteration][device] += c.call.bytes_read + c.call.bytes_written;
    activity_.kernel_begins(device, now);
  }
  if (step == kernels * call_slices) {
    if (c.offered) early_[device].finish();
    activity_.kernel_ends(device, now);
    end(id);
    return;
  }
  const std::uint64_t kernel = step / call_slices;
  const std::uint64_t slice = step % call_slices;
  if (slice == 0) {
    c.begin = now;
    c.late = 0;
  }
  const picoseconds moved = move_slice(c, device, kernel, slice);
  const picoseconds computed =
      c.begin + operation_time(c.call.operations) * (slice + 1) / (kernels * call_slices);
  picoseconds next = std::max(moved, computed);
  if (slice + 1 == call_slices && !c.swept.empty()) {
    const machine::gpu& g = machine_.gpu;
    next += g.l2.hit_latency_ps + c.late + g.call_kernel_ps;
    if (kernel + 1 != kernels) next += g.kernel_launch_ps;
  }
  push(next, event_kind::call_steps, device, id, step + 1);
}

// --- Exchanges

void simulation::signal(std::uint32_t exchange, std::uint32_t device) {
  exchange_work& x = exchanges_[exchange];
  const auto devices = static_cast<std::uint32_t>(x.flags.size());
  if (++x.arrived == devices) {
    if (x.all_arrived) x.all_arrived();
    for (const trace::stretch& s : x.appears) {
      gpus_[s.gpu]->second_level().appear(s.address, s.bytes);
    }
  }
  for (std::uint32_t step = 1; step < devices; ++step) {
    const std::uint32_t to = (device + step) % devices;
    if (x.instant) {
      push(queues_[device].now(), event_kind::flag_arrives, to, exchange);
      continue;
    }
    message m;
    m.kind = message_kind::flag;
    m.from = static_cast<std::uint8_t>(device);
    m.to = static_cast<std::uint8_t>(to);
    m.unit = exchange;
    m.payload = x.payload;
    const std::uint32_t most = fabric_.protocol(device, to).max_payload_bytes;
    m.packets = 1 + (x.payload + most - 1) / most;
    m.wire = static_cast<std::uint32_t>(
        bulk_write_bytes(fabric_.protocol(device, to), x.payload) +
        write_packet_bytes(fabric_.protocol(device, to), 0, flag_bytes, false));
    sent_[device].flags.payload += m.payload;
    sent_[device].flags.wire += m.wire;
    fabric_.send(queues_[device].now(), m);
  }
  flag_arrived(exchange, device);
}

void simulation::flag_arrived(std::uint32_t exchange, std::uint32_t device) {
  exchange_work& x = exchanges_[exchange];
  if (++x.flags[device] == x.flags.size()) end(x.tasks[device]);
}

// --- Tracked launches

void simulation::announced(std::uint32_t device, const kernel::element_range& range) {
  tracked_launch& t = *running_tracked_[device];
  auto c = std::upper_bound(t.chunks.begin(), t.chunks.end(), range.begin,
                            [](std::uint64_t e, const kernel::chunk& k) { return e < k.end; });
  for (; c != t.chunks.end() && c->begin < range.end; ++c) {
    const auto index = static_cast<std::size_t>(c - t.chunks.begin());
    const std::uint64_t elements = std::min(range.end, c->end) - std::max(range.begin, c->begin);
    if (t.left[index] < elements) {
      throw model_error("gpu" + std::to_string(device) + ": a kernel announced too much of chunk " +
                        std::to_string(index) +
                        ": its blocks publish other elements than they are mapped to");
    }
    t.left[index] -= elements;
    if (elements == 0 || t.left[index] != 0) continue;
    for (const task_id id : t.copies[index]) {
      if (--tasks_[id].waits_for == 0) start(id);
    }
  }
}

void simulation::check_announcements() const {
  for (const kernel_work& k : kernels_) {
    if (!k.tracked) continue;
    for (std::size_t c = 0; c < k.tracked->left.size(); ++c) {
      if (k.tracked->left[c] == 0) continue;
      throw model_error("a kernel announced too little of chunk " + std::to_string(c) + ": " +
                        std::to_string(k.tracked->left[c]) +
                        " elements are missing; its blocks publish other elements than they are "
                        "mapped to");
    }
  }
}

void simulation::check_conservation() const {
  fabric_.check_delivered();
  for (std::uint32_t d = 0; d < gpus_.size(); ++d) {
    queued_stores_[d]->queues().check_empty();
    gpus_[d]->check_empty();
  }
  if (check_) check_->compare();
  for (const copy_work& c : copies_) {
    const std::uint64_t bytes = c.what.moves ? c.what.bytes : 0;
    const std::uint64_t all = bytes * c.what.to.size();
    const std::uint64_t arrived =
        std::accumulate(c.arrived_bytes.begin(), c.arrived_bytes.end(), std::uint64_t{0});
    if (c.asked == bytes && c.sent == bytes && arrived == all && c.buffered == 0 && c.ready == 0 &&
        c.sending == 0 && !c.stepping) {
      continue;
    }
    throw model_error("a copy of " + std::to_string(bytes) + " bytes from gpu" +
                      std::to_string(c.what.from) + " read " + std::to_string(c.asked) + ", sent " +
                      std::to_string(c.sent) + " and delivered " + std::to_string(arrived) +
                      " of " + std::to_string(all));
  }
  for (std::size_t k = 0; k < lanes_.size(); ++k) {
    if (lanes_[k].busy == 0 && lanes_[k].waiting.empty()) continue;
    throw model_error("gpu" + std::to_string(k % machine_.gpu_count) +
                      " ends a run while a copy engine, agent or descriptor unit is busy");
  }
  for (std::size_t d = 0; d < launchers_.size(); ++d) {
    if (launchers_[d].pending == 0) continue;
    throw model_error("gpu" + std::to_string(d) +
                      " ends a run while launches still wait for a place");
  }
  const gpu_counters c = counters();
  const store_counts& stores = c.stores;
  if (stores.bytes != stores.delivered + stores.overwritten || stores.enabled != stores.delivered) {
    throw model_error(std::to_string(stores.bytes) + " bytes were stored, " +
                      std::to_string(stores.overwritten) + " of them overwritten before " +
                      std::to_string(stores.enabled) + " were sent, and " +
                      std::to_string(stores.delivered) + " have arrived");
  }
  const page_traffic pages = loads_ ? loads_->found(ended_).moved : page_traffic{};
  const ledger::totals all = fabric_.counts().all();
  const auto expect = [](std::uint64_t sent, std::uint64_t counted, const char* what) {
    if (sent == counted) return;
    throw model_error("messages with " + std::to_string(sent) + " " + what +
                      " were sent, but the devices counted " + std::to_string(counted));
  };
  expect(all.payload,
         c.stored_payload() + c.read_payload + copies().payload + flags().payload + pages.payload +
             c.translations.payload + walked().payload,
         "bytes of payload");
  expect(all.wire,
         c.stored_wire() + c.read_wire + copies().wire + flags().wire + pages.wire +
             c.translations.wire + walked().wire,
         "bytes with protocol");
  if (loads_ && !loads_->empty()) throw model_error("a run ends while a page moves");
}

kernel::observation simulation::observe() const {
  kernel::observation o;
  const picoseconds end = ended_;
  const auto part = [end](picoseconds busy) {
    return end == 0 ? 0.0 : static_cast<double>(busy) / static_cast<double>(end);
  };
  const ledger& counts = fabric_.counts();
  o.time_s = seconds_of(end);
  o.bin_s = seconds_of(counts.bin_width());
  for (std::uint32_t from = 0; from < machine_.gpu_count; ++from) {
    for (std::uint32_t to = 0; to < machine_.gpu_count; ++to) {
      const ledger::pair p = counts.between(from, to);
      if (p.sent.messages == 0) continue;
      o.pairs.push_back(
          {.from = from,
           .to = to,
           .messages = p.sent.messages,
           .packets = p.packets,
           .payload_bytes = p.sent.payload,
           .protocol_bytes = p.sent.wire - p.sent.payload,
           .mean_latency_s = seconds_of(p.latency) / static_cast<double>(p.delivered.messages),
           .max_latency_s = seconds_of(p.longest)});
    }
  }
  for (std::size_t k = 0; k < machine_.links.size(); ++k) {
    const machine::link& l = machine_.links[k];
    for (std::size_t way = 0; way < 2; ++way) {
      const std::size_t d = 2 * k + way;
      if (counts.wire(d) == 0) continue;
      o.links.push_back({.from = machine::name(machine_, way == 0 ? l.a : l.b),
                         .to = machine::name(machine_, way == 0 ? l.b : l.a),
                         .protocol = l.protocol_name,
                         .wire_bytes = counts.wire(d),
                         .busy = part(counts.busy(d)),
                         .by_bin = counts.busy_by_bin(d, end)});
    }
  }
  for (std::uint32_t d = 0; d < machine_.gpu_count; ++d) {
    const activity::device& a = activity_[d];
    const auto moved = static_cast<double>(gpus_[d]->memory_bytes());
    o.devices.push_back(
        {.kernel = part(a.kernel_time),
         .copy = part(a.copy_time),
         .idle = part(a.idle_time),
         .idle_while_others_compute = part(a.idle_while_others),
         .issue = part(gpus_[d]->issue_time()) / machine_.gpu.compute_units,
         .memory = end == 0 ? 0.0 : moved / (machine_.gpu.dram.bytes_per_s * seconds_of(end))});
  }
  return o;
}

// --- Messages and events

void simulation::departed(const message& m) {
  switch (m.kind) {
    case message_kind::store:
    case message_kind::atomic:
      return gpus_[m.from]->departed(m);
    case message_kind::copy_segment:
      return segment_departed(m.unit);
    case message_kind::packed:
    case message_kind::combined:
      return queued_stores_[m.from]->departed(m);
    case message_kind::coalesced_reply:
      return loads_->departed(m);
    default:
      return;
  }
}

void simulation::delivered(const message& m) {
  switch (m.kind) {
    case message_kind::store:
    case message_kind::atomic:
    case message_kind::read_request:
    case message_kind::read_reply:
    case message_kind::translation_reply:
      return gpus_[m.to]->delivered(m);
    case message_kind::copy_segment:
      return segment_delivered(m);
    case message_kind::flag: {
      // Packed stores that arrived before the flag may not have reached the L2 yet.
      const picoseconds unpacked = queued_stores_[m.to]->unpacked();
      if (unpacked <= queues_[m.to].now()) return flag_arrived(m.unit, m.to);
      return push(unpacked, event_kind::flag_arrives, m.to, m.unit);
    }
    case message_kind::combined:
      gpus_[m.to]->delivered(m);
      return packet_arrived(m);
    case message_kind::packed:
      queued_stores_[m.to]->unpack(m, egress::window(m));
      return packet_arrived(m);
    case message_kind::translation_request:
      return iommu_->delivered(m);
    case message_kind::coalesced_reply:
    case message_kind::migration:
      return loads_->delivered(m);
  }
}

void simulation::segment_departed(std::uint32_t copy) {
  copy_work& c = copies_[copy];
  if (--c.sending != 0) return;
  --c.buffered;
  const bool last = c.posted && c.sent == c.what.bytes;
  send_segment(copy);
  schedule_step(copy);
  if (last) leave_lane(copy);
}

void simulation::segment_delivered(const message& m) {
  gpus_[m.to]->second_level().stream_in(queues_[m.to].now(), m.address, m.payload);
  copies_[m.unit].arrived_bytes[m.entry] += m.payload;
}

// As soon as the last link takes the last segment, the sender knows when its data will have
// arrived. The sender does not wait for the receiver's L2, even if that is busy.
void simulation::will_arrive(std::uint32_t at, picoseconds time, const message& m) {
  fabric_.post(at, m.from, time + gpus_[m.from]->second_level().line_time(m.payload),
               event_kind::copy_arrives, m.from, m.unit, 0);
}

void simulation::packet_arrived(const message& m) {
  egress& sender = queued_stores_[m.from]->queues();
  gpus_[m.to]->counted().stores.delivered += sender.received(m);
  if (!apart_) sender.take_back();
}

void simulation::check_deliveries(const std::byte* memory) {
  check_ = std::make_unique<delivery_check>(memory);
  for (const auto& q : queued_stores_) q->queues().check_with(check_.get());
}

void simulation::prefetch(const std::vector<event>& events) const {
  // Events of messages can belong to the host. The host has no GPU to handle them.
  for (const event& e : events) {
    if (is_of_link(e.kind)) continue;
    if (!is_of_message(e.kind)) {
      gpus_[e.device]->prefetch_tables(e);
    } else {
      fabric_.prefetch(e);
    }
  }
  for (const event& e : events) {
    if (is_of_link(e.kind)) continue;
    if (!is_of_message(e.kind)) {
      gpus_[e.device]->prefetch_targets(e);
    } else if (e.kind == event_kind::message_departed && e.device < gpus_.size()) {
      gpus_[e.device]->prefetch_departure(fabric_.message_of(e));
    }
  }
}

void simulation::handle(const event& e) {
  switch (e.kind) {
    case event_kind::message_at_link:
    case event_kind::message_departed:
    case event_kind::message_delivered:
    case event_kind::link_held:
    case event_kind::link_answered:
      return fabric_.handle(e);
    case event_kind::kernel_begins:
      return begin_kernel(e.a);
    case event_kind::kernel_ends:
      return end_kernel(e.device);
    case event_kind::range_announced:
      return announced(e.device, gpus_[e.device]->announced(e.a));
    case event_kind::child_placed:
      if (copies_[e.a].pending) --launchers_[e.device].pending;
      return begin_copy(e.a);
    case event_kind::copy_noticed:
      if (copies_[e.a].lane == none) {
        return gpus_[e.device]->place_child(e.a, copies_[e.a].what.threads);
      }
      return enter_lane(e.a);
    case event_kind::copy_steps:
      return copy_step(e.a);
    case event_kind::segment_read:
      ++copies_[e.a].ready;
      return send_segment(e.a);
    case event_kind::copy_arrives:
      if (--copies_[e.a].arriving == 0) end_copy(e.a);
      return;
    case event_kind::copy_ends:
      return end_copy(e.a);
    case event_kind::call_steps:
      return call_step(e.a, e.b);
    case event_kind::exchange_signals:
      return signal(e.a, e.device);
    case event_kind::flag_arrives:
      return flag_arrived(e.a, e.device);
    case event_kind::page_walked:
      return iommu_->walked(e.device, e.b);
    case event_kind::store_at_queue:
    case event_kind::store_queue_idle:
      return queued_stores_[e.device]->handle(e);
    case event_kind::reply_read:
    case event_kind::reply_timeout:
      return loads_->handle(e);
    default:
      return gpus_[e.device]->handle(e);
  }
}

traffic simulation::copies() const {
  traffic sum;
  for (const sent_counts& s : sent_) {
    sum.payload += s.copies.payload;
    sum.wire += s.copies.wire;
  }
  return sum;
}

traffic simulation::flags() const {
  traffic sum;
  for (const sent_counts& s : sent_) {
    sum.payload += s.flags.payload;
    sum.wire += s.flags.wire;
  }
  return sum;
}

std::uint64_t simulation::copy_stores() const {
  std::uint64_t sum = 0;
  for (const sent_counts& s : sent_) sum += s.copy_stores;
  return sum;
}

std::vector<kernel::timeline_event> simulation::take_timeline() {
  std::vector<kernel::timeline_event> all;
  for (auto& of_device : timelines_) {
    std::move(of_device.begin(), of_device.end(), std::back_inserter(all));
    of_device.clear();
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const auto& x, const auto& y) { return x.end_s < y.end_s; });
  if (all.size() > timeline_limit_) all.resize(timeline_limit_);
  return all;
}

gpu_counters simulation::counters() const {
  gpu_counters sum;
  for (const auto& g : gpus_) add_counts(sum, g->counters());
  return sum;
}

}  // namespace interlace::sim
