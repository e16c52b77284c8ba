#include "sim/transfer/plan_executor.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "interlace/base/errors.hpp"
#include "machine/route.hpp"
#include "sim/fabric/protocol.hpp"

namespace interlace::sim {

namespace {

constexpr int poison = 0xa5;

std::string copy_name(const plan::step& step) {
  return "chunk " + std::to_string(step.chunk) + " of path " + std::to_string(step.path) +
         ", leg " + std::to_string(step.leg);
}

}  // namespace

plan_executor::plan_executor(const machine::machine& described,
                             std::function<void()> check_interrupt)
    : machine_(described),
      check_interrupt_(std::move(check_interrupt)),
      fabric_(with_copy_rates(described), queue_, *this),
      resources_(machine_),
      window_(static_cast<std::uint32_t>(std::max(
          1.0, std::floor(machine_.gpu.copy_bytes_per_s * engine_window_s / segment_bytes)))),
      engines_(machine_.gpu_count),
      payload_(2 * machine_.links.size(), 0) {}

std::uint32_t plan_executor::number(machine::endpoint end) const {
  return end.kind == machine::endpoint_kind::gpu ? end.index : resources_.host();
}

const plan::step& plan_executor::step_of(const copy_work& c) const {
  return executions_[c.execution].wanted.made->steps[c.step];
}

std::uint32_t plan_executor::add(execution wanted) {
  const auto at = static_cast<std::uint32_t>(executions_.size());
  const std::size_t messages = wanted.made->messages.size();
  const bool moves = !wanted.sources.empty() || !wanted.destinations.empty();
  if (moves && (wanted.sources.size() != messages || wanted.destinations.size() != messages))
    throw usage_error("a plan of " + std::to_string(messages) +
                      " messages needs a source and a destination for each message");
  for (const std::uint32_t on : wanted.after)
    if (on >= at) throw usage_error("an execution can wait only for earlier executions");
  if (threads_.size() <= wanted.thread) threads_.resize(wanted.thread + 1);
  threads_[wanted.thread].executions.push_back(at);
  executions_.emplace_back();
  executions_.back().wanted = std::move(wanted);
  return at;
}

picoseconds plan_executor::run() {
  if (ran_) throw usage_error("an executor runs once; make another one");
  ran_ = true;
  for (std::uint32_t thread = 0; thread < threads_.size(); ++thread)
    queue_.push(0, event_kind::thread_continues, 0, thread, 0);
  while (!queue_.empty()) {
    handle(queue_.pop([](const auto&) {}));
    if ((queue_.processed() & 0xfffffU) == 0 && check_interrupt_) check_interrupt_();
  }
  check();
  return queue_.now();
}

// --- Host threads

void plan_executor::advance(std::uint32_t thread) {
  host_thread& t = threads_[thread];
  t.waiting = false;
  if (t.next == t.executions.size()) return;
  const std::uint32_t at = t.executions[t.next];
  running& r = executions_[at];
  picoseconds now = queue_.now();
  // The host notices the end of a copy after this delay. copy_host_ps is the delay plus the time of
  // the next call.
  const picoseconds notice = machine_.gpu.copy_host_ps > machine_.gpu.copy_launch_ps
                                 ? machine_.gpu.copy_host_ps - machine_.gpu.copy_launch_ps
                                 : 0;
  for (const std::uint32_t on : r.wanted.after) {
    if (!executions_[on].ended) {
      t.waiting = true;  // the thread waits until an execution ends
      return;
    }
    now = std::max(now, executions_[on].times.end + notice);
  }
  ++t.next;
  queue_.push(enqueue(at, now + r.wanted.delay), event_kind::thread_continues, 0, thread, 0);
}

// Starts an execution at time `now`. Returns the time when the host thread has made all calls of
// the execution.
picoseconds plan_executor::enqueue(std::uint32_t execution, picoseconds now) {
  running& r = executions_[execution];
  const plan::plan& made = *r.wanted.made;
  const machine::graph_costs& graph = machine_.gpu.graph;
  const auto nodes = static_cast<picoseconds>(made.steps.size());
  const bool streams = r.wanted.how == launched_by::streams;
  r.times.begin = now;
  if (r.wanted.how == launched_by::new_graph) {
    r.times.creation = graph.creation_ps;
    r.times.construction = graph.node_ps * nodes;
    r.times.instantiation = graph.instantiation_ps + graph.instantiation_node_ps * nodes;
  } else if (!streams && r.wanted.other_addresses) {
    r.times.update = graph.update_node_ps * nodes;
  }
  now += r.times.creation + r.times.construction + r.times.instantiation + r.times.update;
  const picoseconds called = now;
  if (!streams) now += graph.launch_ps + graph.launch_node_ps * nodes;
  running* ahead = nullptr;  // the previous graph on the stream of this thread
  if (!streams && !r.wanted.overlaps) {
    std::uint32_t& last = threads_[r.wanted.thread].last_graph;
    if (last != none && !executions_[last].ended) ahead = &executions_[last];
    last = execution;
  }
  r.first_copy = static_cast<std::uint32_t>(copies_.size());
  r.left = static_cast<std::uint32_t>(made.steps.size());
  lay_memory(r);
  for (std::uint32_t index = 0; index < made.steps.size(); ++index) {
    const plan::step& step = made.steps[index];
    const plan::path& way = made.paths[step.path];
    if (streams)
      now += machine_.gpu.copy_launch_ps +
             machine_.gpu.copy_event_ps * static_cast<picoseconds>(step.after.size());
    const auto at = static_cast<std::uint32_t>(copies_.size());
    copy_work c;
    c.execution = execution;
    c.step = index;
    c.from = number(way.stops[step.leg]);
    c.to = number(way.stops[step.leg + 1]);
    c.waits_for = 1;
    for (const std::uint32_t on : step.after) {
      copies_[r.first_copy + on].wakes.push_back(at);
      ++c.waits_for;  // an open condition, because no copy of this execution can have ended yet
    }
    const plan::slot& slot = made.slots[step.slot];
    const auto [last, first] = last_.try_emplace(
        {streams, streams ? r.wanted.thread : execution, slot.gpu, slot.port}, at);
    if (!first) {
      copy_work& before = copies_[last->second];
      if (before.end == 0) {
        before.next_in_slot = at;
        ++c.waits_for;
      }
      last->second = at;
    }
    if (ahead != nullptr && first && step.after.empty()) {
      ahead->wakes.push_back(at);
      ++c.waits_for;
    }
    copies_.push_back(std::move(c));
    queue_.push(now, event_kind::step_enqueued, 0, at, 0);
  }
  r.times.launch = now - called;
  r.times.enqueued = now;
  return now;
}

void plan_executor::lay_memory(running& r) {
  if (r.wanted.sources.empty()) return;
  for (const plan::staging_buffer& buffer : r.wanted.made->buffers) {
    // The buffer is filled with poison, so that a read before the first write is noticed.
    r.buffers.emplace_back(new std::byte[buffer.bytes]);
    std::memset(r.buffers.back().get(), poison, buffer.bytes);
  }
}

// --- Copies

void plan_executor::one_less(std::uint32_t copy, picoseconds earliest) {
  auto& c = copies_[copy];
  c.earliest = std::max(c.earliest, earliest);
  if (--c.waits_for == 0)
    queue_.push(std::max(queue_.now(), c.earliest), event_kind::step_ready, 0, copy, 0);
}

void plan_executor::start_copies(std::uint32_t gpu) {
  engines& e = engines_[gpu];
  while (!e.waiting.empty() && e.busy < std::max(1U, machine_.gpu.copy_engines)) {
    const std::uint32_t next = e.waiting.front();
    e.waiting.pop_front();
    e.most = std::max(e.most, ++e.busy);
    begin(next);
  }
}

void plan_executor::begin(std::uint32_t copy) {
  auto& c = copies_[copy];
  hold_buffers(c);
  c.begin = queue_.now();
  c.next_step = queue_.now() + machine_.gpu.copy_setup_ps;
  schedule_step(copy);
}

void plan_executor::schedule_step(std::uint32_t copy) {
  auto& c = copies_[copy];
  if (c.stepping || c.asked == step_of(c).bytes || c.buffered >= window_) return;
  c.stepping = true;
  queue_.push(std::max(queue_.now(), c.next_step), event_kind::copy_steps, 0, copy, 0);
}

void plan_executor::read_segment(std::uint32_t copy) {
  auto& c = copies_[copy];
  c.stepping = false;
  const std::uint64_t bytes = std::min<std::uint64_t>(segment_bytes, step_of(c).bytes - c.asked);
  c.asked += bytes;
  ++c.buffered;
  c.next_step =
      queue_.now() + static_cast<picoseconds>(std::llround(static_cast<double>(bytes) /
                                                           machine_.gpu.copy_bytes_per_s * 1e12));
  queue_.push(resources_.read(c.from, c.to, queue_.now(), bytes), event_kind::segment_read, 0, copy,
              bytes);
  schedule_step(copy);
}

void plan_executor::send_segment(std::uint32_t copy) {
  auto& c = copies_[copy];
  const machine::protocol& rules = fabric_.protocol(c.from, c.to);
  message m;
  m.kind = message_kind::copy_segment;
  m.from = static_cast<std::uint8_t>(c.from);
  m.to = static_cast<std::uint8_t>(c.to);
  m.unit = copy;
  m.payload =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(segment_bytes, step_of(c).bytes - c.sent));
  m.wire = static_cast<std::uint32_t>(bulk_write_bytes(rules, m.payload));
  m.packets = (m.payload + rules.max_payload_bytes - 1) / rules.max_payload_bytes;
  c.sent += m.payload;
  fabric_.send(queue_.now(), m);
}

void plan_executor::departed(const message& m) {
  --copies_[m.unit].buffered;
  schedule_step(m.unit);
}

void plan_executor::delivered(const message& m) {
  auto& c = copies_[m.unit];
  c.written = std::max(c.written, resources_.write(c.to, queue_.now(), m.payload));
  c.arrived += m.payload;
  if (c.arrived == step_of(c).bytes) queue_.push(c.written, event_kind::copy_ends, 0, m.unit, 0);
}

void plan_executor::finish(std::uint32_t copy) {
  auto& c = copies_[copy];
  const plan::step& step = step_of(c);
  running& r = executions_[c.execution];
  c.end = queue_.now();
  for (const std::uint32_t direction : resources_.way(c.from, c.to))
    payload_[direction] += step.bytes;
  if (!r.wanted.sources.empty())
    std::memcpy(writable(r, step.to), readable(r, step.from), step.bytes);
  free_buffers(c);
  const std::uint32_t gpu = r.wanted.made->slots[step.slot].gpu;
  --engines_[gpu].busy;
  if (c.next_in_slot != none) one_less(c.next_in_slot, c.end);
  for (const std::uint32_t woken : c.wakes) one_less(woken, c.end + machine_.gpu.copy_wait_ps);
  start_copies(gpu);
  if (--r.left != 0) return;
  r.ended = true;
  r.times.end = c.end;
  r.buffers.clear();
  r.uses.clear();
  for (const std::uint32_t woken : r.wakes) one_less(woken, r.times.end);
  if (r.wanted.arrived) r.wanted.arrived();
  for (std::uint32_t thread = 0; thread < threads_.size(); ++thread)
    if (threads_[thread].waiting) advance(thread);
}

// --- Memory

std::byte* plan_executor::writable(running& r, const plan::location& place) const {
  std::byte* base = place.memory == plan::memory::destination ? r.wanted.destinations[place.index]
                                                              : r.buffers[place.index].get();
  return base + place.offset;
}

const std::byte* plan_executor::readable(const running& r, const plan::location& place) const {
  const std::byte* base = place.memory == plan::memory::source ? r.wanted.sources[place.index]
                                                               : r.buffers[place.index].get();
  return base + place.offset;
}

void plan_executor::hold_buffers(copy_work& c) {
  running& r = executions_[c.execution];
  const plan::step& step = step_of(c);
  if (step.to.memory == plan::memory::staging) {
    buffer_use& use = r.uses[{step.to.index, step.to.offset}];
    if (use.written || use.readers != 0)
      throw model_error(copy_name(step) + " is written to a staging buffer that is in use");
    use.written = true;
  }
  if (step.from.memory == plan::memory::staging) {
    buffer_use& use = r.uses[{step.from.index, step.from.offset}];
    if (use.written || !use.filled || use.path != step.path || use.chunk != step.chunk)
      throw model_error(copy_name(step) + " is read from a staging buffer that does not hold it");
    ++use.readers;
  }
}

void plan_executor::free_buffers(copy_work& c) {
  running& r = executions_[c.execution];
  const plan::step& step = step_of(c);
  if (step.to.memory == plan::memory::staging) {
    buffer_use& use = r.uses[{step.to.index, step.to.offset}];
    use = {.readers = use.readers,
           .written = false,
           .filled = true,
           .path = step.path,
           .chunk = step.chunk};
  }
  if (step.from.memory == plan::memory::staging)
    --r.uses[{step.from.index, step.from.offset}].readers;
}

// --- Results

std::pair<picoseconds, picoseconds> plan_executor::step_times(std::uint32_t number,
                                                              std::uint32_t step) const {
  const copy_work& c = copies_[executions_[number].first_copy + step];
  return {c.begin, c.end};
}

std::vector<link_count> plan_executor::links() const {
  std::vector<link_count> found;
  for (std::size_t direction = 0; direction < payload_.size(); ++direction) {
    if (payload_[direction] == 0) continue;
    const machine::link& edge = machine_.links[direction / 2];
    const bool forward = direction % 2 == 0;
    std::string name = machine::name(machine_, forward ? edge.a : edge.b);
    name.append(" -> ").append(machine::name(machine_, forward ? edge.b : edge.a));
    found.push_back({std::move(name), payload_[direction], fabric_.counts().wire(direction),
                     fabric_.counts().busy(direction)});
  }
  return found;
}

void plan_executor::check() const {
  for (std::size_t at = 0; at < executions_.size(); ++at)
    if (!executions_[at].ended)
      throw model_error("execution " + std::to_string(at) + " of a plan did not end");
  for (const copy_work& c : copies_) {
    const std::uint64_t bytes = step_of(c).bytes;
    if (c.asked != bytes || c.sent != bytes || c.arrived != bytes || c.buffered != 0)
      throw model_error(copy_name(step_of(c)) + " has " + std::to_string(bytes) +
                        " bytes, of which " + std::to_string(c.arrived) + " arrived");
  }
  for (const engines& e : engines_)
    if (e.busy != 0 || !e.waiting.empty()) throw model_error("a copy engine is still at work");
  fabric_.check_delivered();
}

void plan_executor::handle(const event& e) {
  switch (e.kind) {
    case event_kind::thread_continues:
      return advance(e.a);
    case event_kind::step_enqueued:
      return one_less(e.a, queue_.now());
    case event_kind::step_ready: {
      const copy_work& c = copies_[e.a];
      const std::uint32_t gpu = executions_[c.execution].wanted.made->slots[step_of(c).slot].gpu;
      engines_[gpu].waiting.push_back(e.a);
      return start_copies(gpu);
    }
    case event_kind::copy_steps:
      return read_segment(e.a);
    case event_kind::segment_read:
      return send_segment(e.a);
    case event_kind::copy_ends:
      return finish(e.a);
    default:
      return fabric_.handle(e);
  }
}

}  // namespace interlace::sim
