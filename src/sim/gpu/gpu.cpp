#include "sim/gpu/gpu.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <string>

#include "interlace/base/errors.hpp"
#include "sim/fabric/protocol.hpp"
#include "sim/fabric/store_packets.hpp"
#include "sim/gpu/count_stores.hpp"

namespace interlace::sim {

namespace {
// An event carries a line's address. The unused high bits of the address hold the sender and the
// part of the line that the sender requests.
constexpr std::uint32_t sender_shift = 56;
constexpr std::uint32_t part_shift = 48;
// The number of warps in a block of a device-launched kernel. The block has 128 threads, like an
// agent's block.
constexpr std::uint32_t child_block_warps = 4;
// The bytes of a warp's program that are prefetched, which are six instructions or more.
constexpr std::size_t prefetched_bytes = 256;
// The sizes of the shared memory that a GPU of compute capability 9.0 can take from the L1, and the
// bytes that each block takes in addition to its own shared memory (CUDA C++ Programming Guide).
constexpr std::uint64_t kib = 1024;
constexpr std::array<std::uint64_t, 10> shared_sizes_kib{0, 8, 16, 32, 64, 100, 132, 164, 196, 228};
constexpr std::uint64_t shared_of_system = kib;
}  // namespace

gpu::gpu(std::uint32_t index, const machine::gpu& config, const address_map& addresses,
         event_queue& queue, fabric& links)
    : index_(index),
      config_(config),
      joined_bytes_(config.remote_store_bytes != 0 ? config.remote_store_bytes
                                                   : config.l2.line_bytes),
      addresses_(addresses),
      queue_(queue),
      fabric_(links),
      clock_ps_(1e12 / config.clock_hz),
      half_l2_(config.l2.hit_latency_ps / 2),
      sub_cores_(config.issue.sub_cores),
      rates_{config.issue.fp32, config.issue.fp64, config.issue.integer, config.issue.special},
      latencies_{config.issue.fp32_latency, config.issue.fp64_latency, config.issue.integer_latency,
                 config.issue.special_latency},
      shuffle_latency_(config.issue.shuffle_latency == 0 ? config.l1.hit_latency_ps
                                                         : clocks(config.issue.shuffle_latency)),
      l1_bytes_(config.l1.bytes),
      vote_latency_(clocks(config.issue.vote_latency)),
      reduction_latency_(clocks(config.issue.reduction_latency)),
      shared_latency_(config.issue.shared_latency == 0 ? config.l1.hit_latency_ps
                                                       : clocks(config.issue.shared_latency)),
      barrier_latency_(clocks(config.issue.barrier_latency)),
      barrier_warp_latency_(clocks(config.issue.barrier_warp_latency)),
      loop_latency_(clocks(config.issue.loop_latency)),
      load_addresses_(config.issue.load_lanes == 0 ? 0
                                                   : clocks(static_cast<double>(config.warp_width) /
                                                            config.issue.load_lanes)),
      lookup_(clocks(1.0 / config.issue.memory_lines)),
      half_port_(config.port_l2_latency_ps == 0 ? half_l2_ : config.port_l2_latency_ps / 2),
      memory_(config) {
  units_.reserve(config.compute_units);
  for (std::uint32_t u = 0; u < config.compute_units; ++u) units_.emplace_back(config_);
  for (std::uint32_t n = 0; n < known_counts; ++n) {
    cycle_times_[n] = clocks(static_cast<double>(n));
    issue_times_[n] = clocks(static_cast<double>(n) * sub_cores_ / config.issue.instructions);
    for (std::size_t pipe = 0; pipe < operation_kinds; ++pipe) {
      pipe_times_[pipe][n] =
          clocks(static_cast<double>(n) * config.warp_width * sub_cores_ / rates_[pipe]);
    }
  }
  for (std::uint32_t sectors = 0; sectors < hit_times_.size(); ++sectors) {
    const double bytes = static_cast<double>(sectors) * config.l1.sector_bytes;
    const double rate = config.l1.bytes_per_s;
    hit_times_[sectors] =
        rate == 0 ? lookup_ : std::max(lookup_, static_cast<picoseconds>(bytes / rate * 1e12));
  }
  if (config.store_bytes_per_s > 0) {
    sector_store_ = static_cast<picoseconds>(
        std::llround(config.l1.sector_bytes / config.store_bytes_per_s * 1e12));
  }
  if (config.scalar_l1.bytes != 0) {
    machine::cache scalar = config.l1;
    scalar.bytes = config.scalar_l1.bytes;
    scalar.ways = config.scalar_l1.ways;
    scalar_l1_.assign(config.compute_units / config.scalar_l1.compute_units, cache(scalar));
  }
  if (config.tlb.page_bytes == 0) return;
  translation_ = config.tlb.l1_latency_ps;
  const auto buffers = static_cast<std::uint32_t>(units_.size() + scalar_l1_.size());
  translator_.emplace(index, config.tlb, buffers, queue, links);
}

// --- Kernels and blocks

void gpu::start_kernel(grid shape, const recorder::settings& record, const block_function& block,
                       std::uint32_t agent_warps) {
  shape_ = shape;
  record_ = record;
  block_ = &block;
  warps_per_block_ = (shape.threads + config_.warp_width - 1) / config_.warp_width;
  blocks_left_ = shape.blocks;
  stores_arrived_ = queue_.now();
  // An agent's blocks are spread evenly over the compute units. They always leave a place for a
  // block of the kernel.
  const auto units = static_cast<std::uint32_t>(units_.size());
  const std::uint32_t own = std::max(1U, warps_per_block_);
  const std::uint32_t taken = (agent_warps + units - 1) / units;
  const std::uint32_t places = config_.max_warps / own;
  std::uint64_t fit = std::min<std::uint64_t>(config_.max_blocks, places);
  if (taken != 0 && fit != 0) {
    const std::uint32_t rest = taken < config_.max_warps ? (config_.max_warps - taken) / own : 0;
    fit = std::clamp<std::uint64_t>(rest, 1, fit);
  }
  const std::uint64_t shared =
      shape.shared_bytes + (config_.l1.holds_shared ? shared_of_system : 0);
  if (shared > 0) fit = std::min(fit, config_.shared_bytes / shared);
  if (config_.registers != 0 && record.code.registers != 0) {
    fit = std::min<std::uint64_t>(fit, blocks_with_registers(record.code.registers, own));
  }
  if (fit == 0 && shape.blocks > 0) {
    throw model_error("a block of " + std::to_string(shape.threads) + " threads of " +
                      std::to_string(record.code.registers) + " registers and " +
                      std::to_string(shape.shared_bytes) +
                      " bytes of shared memory does not fit a compute unit of " + config_.model);
  }
  fit_ = static_cast<std::uint32_t>(fit);
  if (config_.l1.holds_shared) resize_l1s(fit * shared);
  // The memory of the previous kernel's programs is reused.
  free_blocks_.resize(blocks_.size());
  std::iota(free_blocks_.rbegin(), free_blocks_.rend(), 0U);
  recording_.start(record_, *block_, warps_per_block_);
  for (block_slot& b : blocks_) recording_.fit(b);
  // Helpers may record blocks before the blocks start, under three conditions:
  // - The dispatch gives no compute unit blocks of its own. Otherwise the order of the starts is
  //   unknown.
  // - Kernels of other GPUs cannot write what the blocks read. Such writes are possible in shared
  //   pages (`homes`) and in parts of partitions (`in_turn`).
  // - No log lists the blocks in the order in which they start.
  if (helpers_ != nullptr && config_.dispatch == machine::block_dispatch::round_robin &&
      addresses_.homes.empty() && record_.log == nullptr && !record_.in_turn) {
    recording_.allow_ahead(shape.blocks);
    helpers_->wake();
  }
  warps_.resize(blocks_.size() * warps_per_block_);
  for (compute_unit& u : units_) {
    u.l1.invalidate();
    u.claimed_blocks = 0;
    u.next_sub_core = 0;
  }
  for (cache& c : scalar_l1_) c.invalidate();
  share_blocks();
  // A compute unit starts its first block once it has the code, and the next blocks at intervals of
  // block_launch_ps.
  const picoseconds ready = config_.l2.emptied ? memory_.flush(queue_.now()) : queue_.now();
  const picoseconds begin = ready + record.code.instructions * config_.instruction_ps;
  for (std::uint64_t k = 0; k < fit; ++k) {
    for (std::uint32_t u = 0; u < units_.size(); ++u) {
      if (!claim_block(units_[u])) continue;
      push(begin + k * config_.block_launch_ps, event_kind::block_starts, u, 0);
    }
  }
  check_kernel_end();
}

void gpu::resize_l1s(std::uint64_t shared) {
  const auto* taken = std::find_if(shared_sizes_kib.begin(), shared_sizes_kib.end() - 1,
                                   [&](std::uint64_t size) { return size * kib >= shared; });
  machine::cache rest = config_.l1;
  const std::uint64_t least = std::uint64_t{rest.ways} * rest.line_bytes;
  rest.bytes = std::max(least, rest.bytes - std::min(rest.bytes, *taken * kib));
  if (rest.bytes == l1_bytes_) return;
  l1_bytes_ = rest.bytes;
  for (compute_unit& u : units_) u.l1 = cache(rest);
}

// Returns the number of blocks of `warps` warps for which a compute unit has registers. Each
// sub-core has a share of the registers, and gives them to warps in granules.
std::uint32_t gpu::blocks_with_registers(std::uint32_t registers, std::uint32_t warps) const {
  constexpr std::uint32_t granule = 8;  // a lane gets registers in multiples of this number
  const std::uint32_t of_lane = (registers + granule - 1) / granule * granule;
  const std::uint32_t fitting = config_.registers / sub_cores_ / (of_lane * config_.warp_width);
  return fitting * sub_cores_ / warps;
}

void gpu::share_blocks() {
  using machine::block_dispatch;
  const std::uint64_t blocks = shape_.blocks;
  const std::uint64_t each = config_.dispatch == block_dispatch::round_robin ? 0
                             : config_.dispatch == block_dispatch::greedy
                                 ? fit_
                                 : (blocks + units_.size() - 1) / units_.size();
  next_block_ = 0;
  for (compute_unit& u : units_) {
    u.next_block = next_block_;
    next_block_ = std::min(blocks, next_block_ + each);
    u.last_block = next_block_;
    u.unclaimed_blocks = u.last_block - u.next_block;
  }
  unclaimed_blocks_ = blocks - next_block_;
}

bool gpu::claim_block(compute_unit& u) {
  std::uint64_t& left = u.unclaimed_blocks != 0 ? u.unclaimed_blocks : unclaimed_blocks_;
  if (left == 0) return false;
  --left;
  ++u.claimed_blocks;
  return true;
}

void gpu::start_block(std::uint32_t unit) {
  std::uint32_t slot = 0;
  if (free_blocks_.empty()) {
    slot = static_cast<std::uint32_t>(blocks_.size());
    blocks_.emplace_back();
    recording_.fit(blocks_.back());
    warps_.resize(blocks_.size() * warps_per_block_);
  } else {
    slot = free_blocks_.back();
    free_blocks_.pop_back();
  }
  block_slot& b = blocks_[slot];
  b.unit = unit;
  b.warps_left = warps_per_block_;
  b.at_barrier = 0;
  compute_unit& own = units_[unit];
  const std::uint32_t first_sub_core = own.next_sub_core;
  own.next_sub_core = (first_sub_core + warps_per_block_) % sub_cores_;
  std::uint64_t& next = own.next_block != own.last_block ? own.next_block : next_block_;
  recording_.take(next++, b);
  if (recording_.has_room()) helpers_->wake();
  for (const warp_program& p : b.programs) counters_.accesses += p.lines.size();
  for (std::uint32_t k = 0; k < warps_per_block_; ++k) {
    const std::uint32_t id = slot * warps_per_block_ + k;
    warp_program& p = b.programs[k];
    warp& w = warps_[id];
    w = warp{};
    w.block = slot;
    w.unit = static_cast<std::uint16_t>(unit);
    w.sub_core = static_cast<std::uint16_t>((first_sub_core + k) % sub_cores_);
    w.program = p.instructions.data();
    w.lines = p.lines.data();
    w.written = p.written.data();
    w.size = static_cast<std::uint32_t>(p.instructions.size());
    w.ready = queue_.now();
    if (record_.watch_words) p.began.assign(p.lines.size(), 0);
    advance(id);
  }
}

void gpu::end_warp(std::uint32_t warp_id) {
  warps_[warp_id].state = warp_state::done;
  const std::uint32_t slot = warps_[warp_id].block;
  block_slot& b = blocks_[slot];
  if (--b.warps_left != 0) {
    // The other warps may be waiting at a barrier for this warp, which has now ended.
    if (b.at_barrier == b.warps_left && b.at_barrier != 0) release_barrier(slot);
    return;
  }
  announce_written(b);
  --units_[b.unit].claimed_blocks;
  --blocks_left_;
  free_blocks_.push_back(slot);
  fill_unit(b.unit);
  check_kernel_end();
}

void gpu::announce(picoseconds time, const kernel::element_range& range) {
  announced_.push_back(range);
  push(time, event_kind::range_announced, static_cast<std::uint32_t>(announced_.size() - 1), 0);
}

void gpu::announce_written(block_slot& b) {
  for (const kernel::element_range& r : b.written) {
    announce(std::max(queue_.now(), stores_arrived_), r);
  }
  b.written.clear();
}

// --- Places

bool gpu::has_place(const compute_unit& u) const {
  if (u.claimed_blocks >= fit_) return false;
  if (u.child_blocks == 0) return true;
  return (u.claimed_blocks + 1) * warps_per_block_ + u.child_warps <= config_.max_warps &&
         u.claimed_blocks + 1 + u.child_blocks <= config_.max_blocks;
}

void gpu::fill_unit(std::uint32_t unit) {
  while (!waiting_children_.empty()) {
    child& c = waiting_children_.front();
    place_blocks(c, unit);
    if (c.warps_left != 0) break;
    push(queue_.now(), event_kind::child_placed, c.id, 0);
    children_.push_back(std::move(c));
    waiting_children_.pop_front();
  }
  compute_unit& u = units_[unit];
  while (has_place(u) && claim_block(u)) {
    push(queue_.now() + config_.block_launch_ps, event_kind::block_starts, unit, 0);
  }
}

void gpu::place_blocks(child& c, std::uint32_t unit) {
  compute_unit& u = units_[unit];
  while (c.warps_left != 0) {
    const std::uint32_t warps = std::min(child_block_warps, c.warps_left);
    if (u.claimed_blocks * warps_per_block_ + u.child_warps + warps > config_.max_warps ||
        u.claimed_blocks + u.child_blocks >= config_.max_blocks) {
      return;
    }
    u.child_warps += warps;
    ++u.child_blocks;
    c.warps_left -= warps;
    c.units.push_back(unit);
    c.warps.push_back(warps);
  }
}

void gpu::place_child(std::uint32_t id, std::uint32_t threads) {
  child c;
  c.id = id;
  // The number is limited by the GPU's places. A kernel with more warps could never be placed as a
  // whole.
  const auto most = static_cast<std::uint32_t>(units_.size()) *
                    std::min(config_.max_warps / child_block_warps, config_.max_blocks) *
                    child_block_warps;
  const std::uint32_t warps = (threads + config_.warp_width - 1) / config_.warp_width;
  c.warps_left = std::clamp(warps, 1U, std::max(1U, most));
  if (waiting_children_.empty()) {
    for (std::uint32_t k = 0; k < units_.size() && c.warps_left != 0; ++k) {
      place_blocks(c, next_unit_);
      next_unit_ = (next_unit_ + 1) % static_cast<std::uint32_t>(units_.size());
    }
  }
  if (c.warps_left != 0) {
    waiting_children_.push_back(std::move(c));
    return;
  }
  push(queue_.now(), event_kind::child_placed, id, 0);
  children_.push_back(std::move(c));
}

void gpu::end_child(std::uint32_t id) {
  const auto c =
      std::find_if(children_.begin(), children_.end(), [&](const child& k) { return k.id == id; });
  const child ended = std::move(*c);
  children_.erase(c);
  for (std::size_t k = 0; k < ended.units.size(); ++k) {
    compute_unit& u = units_[ended.units[k]];
    u.child_warps -= ended.warps[k];
    --u.child_blocks;
  }
  for (const std::uint32_t unit : ended.units) fill_unit(unit);
}

void gpu::check_kernel_end() {
  if (blocks_left_ == 0)
    push(std::max(queue_.now(), stores_arrived_), event_kind::kernel_ends, 0, 0);
}

void gpu::store_taken(std::uint32_t unit) {
  --units_[unit].remote_used;
  resume(units_[unit].waiting_remote);
}

void gpu::release_barrier(std::uint32_t block) {
  blocks_[block].at_barrier = 0;
  for (std::uint32_t k = 0; k < warps_per_block_; ++k) {
    const std::uint32_t id = block * warps_per_block_ + k;
    if (warps_[id].state != warp_state::barrier) continue;
    warps_[id].state = warp_state::ready;
    ++warps_[id].next;
    // The barrier is released by an event and not here, because the last warp to arrive is still
    // advancing here. A kernel has no barrier after its last part.
    const bool ends = warps_[id].next == warps_[id].size;
    const picoseconds after =
        ends ? 0 : barrier_latency_ + warps_per_block_ * barrier_warp_latency_;
    warps_[id].ready = std::max(warps_[id].ready, queue_.now() + after);
    warps_[id].issues = warps_[id].ready;
    push(queue_.now() + after, event_kind::warp_wakes, id, 0);
  }
}

// --- Warps

// Executes an instruction that waits for all instructions before it. Returns false if the
// instruction must still wait.
bool gpu::run_waiting(std::uint32_t warp_id, instruction& i) {
  warp& w = warps_[warp_id];
  if (w.under_way != 0) {
    w.state = warp_state::waiting;
    return false;
  }
  const picoseconds now = queue_.now();
  if (w.ready > now) {
    w.state = warp_state::waiting;
    push(w.ready, event_kind::warp_wakes, warp_id, 0);
    return false;
  }
  sub_core& own = sub_core_of(w);
  switch (i.kind) {
    case instruction_kind::compute: {
      const picoseconds busy = pipe_time_of(i.op, i.count);
      const picoseconds issued = own.issue.reserve(now, issue_time_of(i.count));
      const picoseconds done = own.pipes[static_cast<std::size_t>(i.op)].reserve(issued, busy);
      // Other warps can use the lanes while this warp waits for its own results.
      w.ready = std::max(done + busy, now + latency_of(i.op, i.count));
      // Instructions issue in order. Accesses that follow wait until the last of these operations
      // is issued.
      w.issues = now + latency_of(i.op, i.count);
      if (i.ends_iteration) w.issues += loop_latency_;
      break;
    }
    case instruction_kind::shuffle: {
      const picoseconds issued = own.issue.reserve(now, issue_time_of(i.count));
      if (config_.issue.shuffle_latency == 0) {
        w.ready = issued + i.count * shuffle_latency_;
        break;
      }
      // Exchanges between lanes use the load/store unit, which the sub-cores share.
      const picoseconds busy = cycle_time_of(i.count);
      const picoseconds begun = unit_of(warp_id).load_store.reserve(issued, busy);
      w.ready = w.issues = std::max(begun + busy, issued + i.count * shuffle_latency_);
      break;
    }
    case instruction_kind::vote:
    case instruction_kind::reduce: {
      // A vote takes two integer operations. Reductions run on the lanes for special operations.
      const bool votes = i.kind == instruction_kind::vote;
      const operation lanes = votes ? operation::integer : operation::special;
      const picoseconds busy = pipe_time_of(lanes, votes ? 2 : 1);
      const picoseconds issued = own.issue.reserve(now, issue_time_of(1));
      const picoseconds begun = own.pipes[static_cast<std::size_t>(lanes)].reserve(issued, busy);
      w.ready = w.issues =
          std::max(begun + busy, issued + (votes ? vote_latency_ : reduction_latency_));
      break;
    }
    case instruction_kind::publish: {
      // The fence ends when the L2 has answered all stores of the block. After the fence, the
      // addition to the counter takes half of a round trip to the L2. If the stores themselves
      // update the counters, the block waits only until the stores have arrived.
      const bool instructed = record_.counters != nullptr;
      if (instructed) w.ready = now + config_.l2.hit_latency_ps;
      const auto& ranges = blocks_[w.block].programs[warp_id % warps_per_block_].published;
      for (std::uint32_t k = 0; k < i.count; ++k) {
        announce(instructed ? w.ready + half_l2_ : std::max(now, stores_arrived_),
                 ranges[i.first_line + k]);
      }
      break;
    }
    case instruction_kind::wait:
      if (i.count != 0) {
        w.state = warp_state::waiting;
        push(now + i.count * config_.l2.hit_latency_ps, event_kind::warp_wakes, warp_id, 0);
        i.count = 0;  // the instruction is done when the warp wakes
        return false;
      }
      break;
    case instruction_kind::barrier: {
      const std::uint32_t slot = w.block;
      w.state = warp_state::barrier;
      if (++blocks_[slot].at_barrier == blocks_[slot].warps_left) release_barrier(slot);
      return false;
    }
    default:
      break;
  }
  return true;
}

void gpu::advance(std::uint32_t warp_id) {
  if (stopped_) {
    warps_[warp_id].state = warp_state::waiting;
    // The event is held until go_on() is called.
    push(queue_.now(), event_kind::warp_wakes, warp_id, 0);
    return;
  }
  while (true) {
    warp& w = warps_[warp_id];
    w.state = warp_state::ready;
    if (w.next == w.size) {
      if (w.under_way != 0) {
        w.state = warp_state::waiting;
      } else if (w.ready > queue_.now()) {
        w.state = warp_state::waiting;
        push(w.ready, event_kind::warp_wakes, warp_id, 0);
      } else {
        end_warp(warp_id);
      }
      return;
    }
    instruction& i = instruction_of(warp_id, w.next);
    switch (i.kind) {
      case instruction_kind::compute:
      case instruction_kind::shuffle:
      case instruction_kind::vote:
      case instruction_kind::reduce:
      case instruction_kind::publish:
      case instruction_kind::wait:
      case instruction_kind::barrier:
        if (!run_waiting(warp_id, i)) return;
        i.issued = true;
        i.ready = w.ready;
        ++w.next;
        break;
      default:
        if (w.under_way >= window) {
          w.state = warp_state::waiting;
          return;
        }
        if (w.issues > queue_.now()) {
          w.state = warp_state::waiting;
          push(w.issues, event_kind::warp_wakes, warp_id, 0);
          return;
        }
        if (i.kind == instruction_kind::shared && i.depends == none) {
          // This instruction can issue at once, and no instruction waits for it yet. A warp may run
          // through many such instructions, and the event has prefetched only the first of them.
          __builtin_prefetch(reinterpret_cast<const std::byte*>(&i) + prefetched_bytes, 1);
          compute_unit& u = units_[w.unit];
          sub_core_of(w).issue.reserve(queue_.now(), issue_times_[1]);
          i.ready = u.load_store.reserve(queue_.now(), cycle_time_of(i.count)) + shared_latency_;
          i.issued = true;
          w.ready = std::max(w.ready, i.ready);
          ++w.next;
          break;
        }
        if (!try_memory(warp_id, w.next)) {
          warps_[warp_id].state = warp_state::no_entry;
          return;
        }
        ++warps_[warp_id].next;
    }
  }
}

// Issues or defers an instruction in program order. Returns false if the compute unit has no free
// entry.
bool gpu::try_memory(std::uint32_t warp_id, std::uint32_t index) {
  warp& w = warps_[warp_id];
  instruction& i = instruction_of(warp_id, index);
  if (i.depends != none) {
    instruction& source = instruction_of(warp_id, i.depends);
    if (!source.issued || source.pending != 0) {
      i.next_dependent = source.dependents;
      source.dependents = index;
      ++w.under_way;
      return true;
    }
    if (source.ready > queue_.now()) {
      ++w.under_way;
      push_issue(source.ready, warp_id, index);
      return true;
    }
  }
  ++w.under_way;
  return issue(warp_id, index);
}

bool gpu::issue(std::uint32_t warp_id, std::uint32_t index) {
  warp& w = warps_[warp_id];
  instruction& i = w.program[index];
  compute_unit& u = units_[w.unit];
  const bool load = i.kind == instruction_kind::load;
  const bool in_line = config_.l1.stalls_on_full_set && load;
  if (in_line && !retrying_ && !u.waiting.empty()) {
    u.waiting.push_back(stalled_at(w, warp_id, index));
    return false;
  }
  if (i.next_line == 0) {
    i.ready = u.sub_cores[w.sub_core].issue.reserve(queue_.now(), issue_times_[1]);
    if (record_.watch_words && load) {
      picoseconds& began = began_of(w, i);
      if (began == 0) began = queue_.now();
    }
  }
  // The load/store unit takes some clocks to compute the addresses of a load's lanes. It looks up
  // the first line in the last of these clocks.
  if (load && i.next_line == 0 && load_addresses_ > lookup_) {
    u.load_store.reserve(queue_.now(), load_addresses_ - lookup_);
  }
  if (i.kind == instruction_kind::shared) {
    i.ready = u.load_store.reserve(queue_.now(), cycle_time_of(i.count)) + shared_latency_;
  }
  if (load) {
    for (std::uint32_t k = i.next_line; k < i.line_count; ++k) {
      u.l1.prefetch(w.lines[i.first_line + k].line());
    }
  }
  for (; i.next_line < i.line_count; ++i.next_line) {
    const line_access l = w.lines[i.first_line + i.next_line];
    if (translator_) {
      if (!translated(warp_id, index)) return false;
    } else if (pages_ != nullptr && !pages_->may_access({warp_id, index}, l.line())) [[unlikely]] {
      pass_turn(u);
      return false;
    }
    const bool taken = load
                           ? issue_load(u, warp_id, i, l)
                           : issue_store(u, w.unit, i, l, w.written[i.first_written + i.next_line]);
    if (!taken) {
      const bool local = load || addresses_.owner(l.line()) == index_;
      if (in_line && retrying_) {
        // The instruction returns to the front of the queue, because it was the first instruction.
        u.waiting.push_front(stalled_at(w, warp_id, index));
      } else {
        (local ? u.waiting : u.waiting_remote).push_back(stalled_at(w, warp_id, index));
      }
      return false;
    }
    if (pages_ != nullptr && pages_->watches_accesses()) [[unlikely]] {
      pages_->accessed(l.line());
    }
  }
  i.issued = true;
  if (i.counted && --blocks_[w.block].stores_left == 0) {
    announce_written(blocks_[w.block]);
  }
  if (i.pending == 0) complete(warp_id, i);
  return true;
}

// Ends an issued instruction. All of its lines have returned, or the time of their return is known.
void gpu::complete(std::uint32_t warp_id, instruction& i) {
  warp& w = warps_[warp_id];
  --w.under_way;
  i.ready = std::max(i.ready, queue_.now());
  w.ready = std::max(w.ready, i.ready);
  if (record_.watch_words && i.kind == instruction_kind::load) {
    ++counters_.loads.instructions;
    counters_.loads.waited += i.ready - began_of(w, i);
  }
  for (std::uint32_t d = i.dependents; d != none;) {
    const std::uint32_t next = w.program[d].next_dependent;
    push_issue(i.ready, warp_id, d);
    d = next;
  }
  i.dependents = none;
}

// Callers use this function when an entry has become free, and when an instruction that was woken
// for an entry did not need the entry.
void gpu::resume(std::deque<stalled>& waiting) {
  if (waiting.empty()) return;
  const stalled s = waiting.front();
  waiting.pop_front();
  push(queue_.now(), event_kind::instruction_issues, s.warp, s.index);
  if (waiting.empty()) return;
  // Prefetches the data of the next waiting instruction now. When that instruction's turn comes, it
  // is too late to prefetch.
  const stalled& next = waiting.front();
  __builtin_prefetch(next.what, 1);
  __builtin_prefetch(next.line);
  __builtin_prefetch(next.written);
  __builtin_prefetch(&warps_[next.warp], 1);
}

gpu::stalled gpu::stalled_at(const warp& w, std::uint32_t warp_id, std::uint32_t index) {
  const instruction& i = w.program[index];
  const bool writes = i.kind == instruction_kind::store || i.kind == instruction_kind::atomic;
  return {.warp = warp_id,
          .index = index,
          .what = &i,
          .line = w.lines + i.first_line + i.next_line,
          .written = writes ? w.written + i.first_written + i.next_line : nullptr};
}

void gpu::issue_again(std::uint32_t warp_id, std::uint32_t index) {
  const bool in_order =
      warps_[warp_id].state == warp_state::no_entry && warps_[warp_id].next == index;
  compute_unit& u = unit_of(warp_id);
  retrying_ = true;
  const bool issued = issue(warp_id, index);
  retrying_ = false;
  if (!issued) return;
  if (u.entries_used < config_.l1.mshrs) resume(u.waiting);
  if (u.remote_used < config_.store_queue_lines) resume(u.waiting_remote);
  if (in_order) {
    ++warps_[warp_id].next;
    advance(warp_id);
  } else if (warps_[warp_id].state == warp_state::waiting) {
    advance(warp_id);
  }
}

// --- Pages

bool gpu::translated(std::uint32_t warp_id, std::uint32_t index) {
  const warp& w = warps_[warp_id];
  instruction& i = w.program[index];
  if (i.next_line < i.looked_up) return true;
  const bool scalar = i.uniform && !scalar_l1_.empty();
  const auto buffer =
      scalar ? static_cast<std::uint32_t>(units_.size()) + w.unit / config_.scalar_l1.compute_units
             : w.unit;
  // This loop also requests the pages of all later lines now.
  bool asked = true;
  for (; asked && i.looked_up < i.line_count; ++i.looked_up) {
    const std::uint64_t page = translator_->page_of(w.lines[i.first_line + i.looked_up].line());
    const translator::answer found = translator_->look_up(buffer, page);
    asked = found != translator::answer::no_entry;
    if (found == translator::answer::there) {
      if (i.untranslated != 0) continue;
      ++i.looked_up;
      return true;
    }
    if (!asked && i.untranslated != 0) break;
    ++i.untranslated;
    translator_->wait(buffer, page, {warp_id, index});
  }
  pass_turn(unit_of(warp_id));
  return false;
}

void gpu::pass_turn(compute_unit& u) {
  if (!retrying_) return;
  if (u.entries_used < config_.l1.mshrs) resume(u.waiting);
  if (u.remote_used < config_.store_queue_lines) resume(u.waiting_remote);
}

void gpu::go_on() {
  stopped_ = false;
  for (const event& e : held_events_) queue_.push(queue_.now(), e.kind, e.device, e.a, e.b);
  held_events_.clear();
}

void gpu::release_stores() {
  stores_held_ = false;
  for (compute_unit& u : units_) resume(u.waiting_remote);
}

void gpu::forget_translation(std::uint64_t address) {
  if (translator_) translator_->shoot_down(translator_->page_of(address));
}

void gpu::learn_translation(std::uint64_t address) {
  if (translator_) translator_->walked(translator_->page_of(address), true);
}

void gpu::invalidate_l1s() {
  for (compute_unit& u : units_) u.l1.invalidate();
  for (cache& c : scalar_l1_) c.invalidate();
}

void gpu::erase_from_l1s(std::uint64_t address, std::uint64_t bytes) {
  for (std::uint64_t line = address; line < address + bytes; line += config_.l1.line_bytes) {
    for (compute_unit& u : units_) u.l1.erase(line);
    for (cache& c : scalar_l1_) c.erase(line);
  }
}

// --- Memory instructions

std::uint32_t gpu::take_miss(compute_unit& u) {
  if (u.free_misses.empty()) {
    u.misses.emplace_back();
    return static_cast<std::uint32_t>(u.misses.size() - 1);
  }
  const std::uint32_t entry = u.free_misses.back();
  u.free_misses.pop_back();
  u.misses[entry] = {};
  return entry;
}

bool gpu::issue_load(compute_unit& u, std::uint32_t warp_id, instruction& i, line_access l) {
  const std::uint8_t wanted = l.sectors();
  const std::uint32_t unit = warps_[warp_id].unit;
  const bool scalar = i.uniform && !scalar_l1_.empty();
  if (loads_ != nullptr && !scalar && addresses_.owner(l.line()) != index_) [[unlikely]] {
    const auto answer = loads_->issue({.unit = unit, .warp = warp_id, .what = &i, .line = l});
    if (answer != load_rules::answer::plain) return answer == load_rules::answer::taken;
  }
  cache& l1 = cache_of(u, unit, scalar);
  cache::line* line = l1.find(l.line());
  if (line != nullptr && (wanted & ~line->valid) == 0) {
    ++counters_.l1_hits;
    const picoseconds latency =
        scalar ? config_.scalar_l1.hit_latency_ps : config_.l1.hit_latency_ps;
    const picoseconds taken = hit_times_[static_cast<std::size_t>(std::popcount(wanted))];
    i.ready = std::max(i.ready, u.load_store.reserve(queue_.now(), taken) + translation_ + latency);
    if (record_.watch_words) count_load(warps_[warp_id], i, l, true);
    return true;
  }
  std::uint32_t entry = 0;
  // The compute unit that owns the entry. If compute units share a scalar cache, the owner can
  // differ from the unit that loads.
  std::uint32_t holder = unit;
  if (line != nullptr && (wanted & ~line->pending) == 0) {
    entry = line->entry & 0xffffU;
    holder = line->entry >> 16U;
    u.load_store.reserve(queue_.now(), lookup_);
  } else {
    if (u.entries_used >= config_.l1.mshrs) return false;
    if (line == nullptr) {
      cache::victim displaced;
      if (config_.l1.stalls_on_full_set && !scalar) {
        line = l1.allocate_over_arrived(l.line(), displaced);
        if (line == nullptr) return false;
      } else {
        line = &l1.allocate(l.line(), displaced);
      }
    }
    ++u.entries_used;
    ++counters_.l1_misses;
    entry = take_miss(u);
    u.misses[entry].scalar = scalar;
    line->pending = wanted;
    line->entry = unit << 16U | entry;
    send_load(u.load_store.reserve(queue_.now(), lookup_) + translation_ + half_l2_, unit, entry,
              l);
  }
  if (record_.watch_words) count_load(warps_[warp_id], i, l, false);
  wait_for(units_[holder], entry, warp_id, i);
  return true;
}

// Adds an instruction to the instructions that wait for a miss.
void gpu::wait_for(compute_unit& holder, std::uint32_t entry, std::uint32_t warp_id,
                   instruction& i) {
  miss& m = holder.misses[entry];
  if (m.waiting == nullptr) {
    m.waiting = &i;
    m.warp = warp_id;
  } else {
    std::uint32_t node = free_waiter_;
    if (node == none) {
      node = static_cast<std::uint32_t>(waiters_.size());
      waiters_.emplace_back();
    } else {
      free_waiter_ = waiters_[node].next;
    }
    waiters_[node] = {&i, warp_id, m.waiters};
    m.waiters = node;
  }
  ++i.pending;
}

picoseconds gpu::pass_l1(std::uint32_t unit) {
  return units_[unit].load_store.reserve(queue_.now(), lookup_) + translation_ + half_l2_;
}

std::uint32_t gpu::take_entry(std::uint32_t unit, std::uint32_t token) {
  compute_unit& u = units_[unit];
  ++u.entries_used;
  ++counters_.l1_misses;
  const std::uint32_t entry = take_miss(u);
  u.misses[entry].token = token;
  return entry;
}

void gpu::count_load(const warp& w, const instruction& i, line_access l, std::optional<bool> hit) {
  if (i.uniform && !scalar_l1_.empty()) {
    ++counters_.scalar;
    return;
  }
  remote_load_counts& c = counters_.loads;
  if (addresses_.owner(l.line()) == index_) {
    ++c.local;
    if (loads_ != nullptr) loads_->saw_local();
    return;
  }
  ++c.remote;
  if (hit.value_or(false)) ++c.hits;
  const std::uint32_t words = words_of(w, i);
  const auto wanted = static_cast<std::uint32_t>(__builtin_popcount(words));
  c.words += wanted;
  if (wanted != 0) ++c.by_words[wanted - 1];
  if (loads_ != nullptr) loads_->saw_remote_load(l, words, hit);
}

void gpu::send_load(picoseconds time, std::uint32_t unit, std::uint32_t entry, line_access l) {
  const std::uint32_t owner = addresses_.owner(l.line());
  if (owner == index_) {
    push(time, event_kind::load_at_l2, unit << 16U | entry, l.packed());
    return;
  }
  if (loads_ != nullptr && !loads_->needs_request(time, unit, entry, l)) return;
  request(time, unit, entry, l, 0);
}

void gpu::request(picoseconds time, std::uint32_t unit, std::uint32_t entry, line_access l,
                  std::uint32_t part) {
  const std::uint32_t owner = addresses_.owner(l.line());
  check_reaches(owner);
  message m;
  m.kind = message_kind::read_request;
  m.from = static_cast<std::uint8_t>(index_);
  m.to = static_cast<std::uint8_t>(owner);
  m.unit = unit;
  m.entry = entry;
  m.address = l.packed();
  m.wire = read_request_bytes(fabric_.protocol(index_, owner));
  m.lanes = part;
  counters_.read_wire += m.wire;
  ++counters_.reads;
  units_[unit].misses[entry].sent = time;
  if (pages_ == nullptr || pages_->leaves(m)) leave(time, m);
}

void gpu::check_reaches(std::uint32_t owner) const {
  if (fabric_.reaches(index_, owner)) return;
  throw usage_error("no link leads from gpu" + std::to_string(index_) + " to gpu" +
                    std::to_string(owner) + ", so it cannot reach that GPU's memory");
}

// The time when the first byte of a store to a line leaves.
picoseconds gpu::store_leaves(compute_unit& u, line_access l) {
  const picoseconds looked_up = u.load_store.reserve(queue_.now(), lookup_);
  if (sector_store_ == 0) return looked_up;
  const auto sectors = static_cast<picoseconds>(std::popcount(l.sectors()));
  return u.stores.reserve(looked_up, sector_store_ * sectors);
}

bool gpu::issue_store(compute_unit& u, std::uint32_t unit, const instruction& i, line_access l,
                      const written_bytes& written) {
  const std::uint32_t owner = addresses_.owner(l.line());
  const bool is_atomic = i.kind == instruction_kind::atomic;
  const std::uint32_t lanes = is_atomic ? std::min(written.lanes, 0xffffU) : 0;
  if (owner == index_) {
    if (u.entries_used >= config_.l1.mshrs) return false;
    ++u.entries_used;
    const picoseconds at = store_leaves(u, l) + translation_ + half_l2_;
    push(at, event_kind::store_at_l2, unit << 16U | lanes, l.packed());
    ++counters_.loads.local_stores;
    if (loads_ != nullptr) loads_->saw_local();
    stores_arrived_ = std::max(stores_arrived_, at);
    return true;
  }
  if (u.remote_used >= config_.store_queue_lines || stores_held_) return false;
  check_reaches(owner);
  ++u.remote_used;
  ++counters_.loads.remote_stores;
  if (loads_ != nullptr) loads_->saw_remote_store();
  const picoseconds at = store_leaves(u, l) + translation_ + half_l2_;
  // A later message of this GPU must not overtake these stores.
  stores_arrived_ = std::max(stores_arrived_, at);
  if (!is_atomic) {
    send_store(at, unit, owner, l, written);
    return true;
  }
  const packet_cost cost = store_packets(fabric_.protocol(index_, owner), written.bytes);
  message m;
  m.kind = message_kind::atomic;
  m.from = static_cast<std::uint8_t>(index_);
  m.to = static_cast<std::uint8_t>(owner);
  m.unit = unit;
  m.address = l.packed();
  m.lanes = lanes;
  m.payload = cost.payload;
  m.wire = cost.wire;
  m.packets = cost.packets;
  counters_.atomics += cost.packets;
  counters_.atomic_payload += cost.payload;
  counters_.atomic_wire += cost.wire;
  leave(at, m);
  return true;
}

// Sends a warp's store to a line of another GPU. The store leaves in one piece, or in several if
// the machine joins less than a line at a time.
void gpu::send_store(picoseconds time, std::uint32_t unit, std::uint32_t owner, line_access l,
                     const written_bytes& written) {
  if (queues_ != nullptr) {
    queues_->store(time, unit, owner, l, written);
    return;
  }
  store_counts& counts = counters_.stores;
  const packet_cost cost = count_stores(fabric_.protocol(index_, owner), written, joined_bytes_,
                                        counts, [](const byte_mask&, std::uint32_t) {});
  message m;
  m.kind = message_kind::store;
  m.from = static_cast<std::uint8_t>(index_);
  m.to = static_cast<std::uint8_t>(owner);
  m.unit = unit;
  m.address = l.packed();
  m.payload = cost.payload;
  m.wire = cost.wire;
  m.packets = cost.packets;
  counts.packets += cost.packets;
  counts.payload += cost.payload;
  counts.enabled += cost.payload;
  counts.wire += cost.wire;
  fabric_.send(time, m);
}

void gpu::load_done(std::uint32_t unit, std::uint32_t entry, line_access l) {
  compute_unit& u = units_[unit];
  const miss m = u.misses[entry];
  u.free_misses.push_back(entry);
  --u.entries_used;
  if (m.token != none) {
    loads_->entry_done(unit, m.token);
  }
  // The line may have been displaced since the request.
  else if (cache::line* line = cache_of(u, unit, m.scalar).find(l.line()); line != nullptr) {
    line->valid = static_cast<std::uint8_t>(line->valid | l.sectors());
    if (line->entry == (unit << 16U | entry)) line->pending = 0;
  }
  resume(u.waiting);
  line_arrived(m.warp, *m.waiting);
  for (std::uint32_t node = m.waiters; node != none;) {
    const waiter w = waiters_[node];
    waiters_[node].next = free_waiter_;
    free_waiter_ = node;
    node = w.next;
    line_arrived(w.warp, *w.waiting);
  }
}

void gpu::line_arrived(std::uint32_t warp_id, instruction& i) {
  if (--i.pending != 0 || !i.issued) return;
  complete(warp_id, i);
  if (warps_[warp_id].state == warp_state::waiting) advance(warp_id);
}

void gpu::departed(const message& m) {
  if (m.kind == message_kind::store || m.kind == message_kind::atomic) store_taken(m.unit);
}

void gpu::delivered(const message& m) {
  // An arriving request takes its place in the bank's queue only when the request reaches the bank.
  const picoseconds at_bank = queue_.now() + half_port_;
  switch (m.kind) {
    case message_kind::store:
      counters_.stores.delivered += m.payload;
      [[fallthrough]];
    case message_kind::combined:
    case message_kind::atomic:
      push(at_bank, event_kind::store_at_l2, foreign_unit << 16U | m.lanes, m.address);
      break;
    case message_kind::read_request:
      counters_.loads.in_links += queue_.now() - m.sent;
      push(
          at_bank, event_kind::remote_load_at_l2, m.unit << 16U | m.entry,
          m.address | std::uint64_t{m.lanes} << part_shift | std::uint64_t{m.from} << sender_shift);
      break;
    case message_kind::translation_reply:
      translator_->walked(m.address, m.unit != 0);
      break;
    case message_kind::read_reply:
      counters_.loads.in_links += queue_.now() - m.sent;
      replied(m.unit, m.entry, line_access::unpack(m.address));
      break;
    default:
      break;
  }
}

void gpu::replied(std::uint32_t unit, std::uint32_t entry, line_access l) {
  if (pages_ != nullptr) pages_->came_back(l.line());
  counters_.read_latency += queue_.now() - units_[unit].misses[entry].sent;
  if (loads_ != nullptr && loads_->takes_reply(unit, entry, l)) return;
  load_done(unit, entry, l);
}

void gpu::reply(const event& e) {
  const load_rules::part p{
      .to = static_cast<std::uint32_t>(e.b >> sender_shift),
      .unit = e.a >> 16U,
      .entry = e.a & 0xffffU,
      .wanted = static_cast<std::uint32_t>(e.b >> part_shift & 0xffU),
      .line = line_access::unpack(e.b & ((std::uint64_t{1} << part_shift) - 1))};
  if (p.wanted != 0) {
    loads_->reply(p);
    return;
  }
  send_reply(
      e.time, p,
      static_cast<std::uint32_t>(__builtin_popcount(p.line.sectors())) * config_.l2.sector_bytes);
}

void gpu::send_reply(picoseconds time, const load_rules::part& p, std::uint32_t payload) {
  message m;
  m.kind = message_kind::read_reply;
  m.from = static_cast<std::uint8_t>(index_);
  m.to = static_cast<std::uint8_t>(p.to);
  m.unit = p.unit;
  m.entry = p.entry;
  m.address = p.line.packed();
  m.payload = payload;
  m.wire = read_reply_bytes(fabric_.protocol(index_, m.to), m.payload);
  counters_.read_payload += m.payload;
  counters_.read_wire += m.wire;
  fabric_.send(memory_.read(time, p.line.line(), p.line.sectors()) + half_port_, m);
}

gpu_counters gpu::counters() const {
  gpu_counters found = counters_;
  found.loads.l2_loads = memory_.reads();
  found.loads.l2_hits = memory_.read_hits();
  if (translator_) found.translations = translator_->counts();
  return found;
}

picoseconds gpu::issue_time() const {
  picoseconds sum = 0;
  for (const compute_unit& u : units_) {
    for (const sub_core& s : u.sub_cores) sum += s.issue.busy();
  }
  return sum / sub_cores_;
}

void gpu::check_empty() const {
  const auto expect = [this](bool empty, const std::string& what) {
    if (!empty) {
      throw model_error("gpu" + std::to_string(index_) + " ends a run with " + what);
    }
  };
  for (std::size_t k = 0; k < units_.size(); ++k) {
    const compute_unit& u = units_[k];
    const std::string unit = " of compute unit " + std::to_string(k);
    expect(u.entries_used == 0, std::to_string(u.entries_used) + " entries in use" + unit);
    expect(u.free_misses.size() == u.misses.size(), "misses without data" + unit);
    expect(u.remote_used == 0, std::to_string(u.remote_used) + " remote stores waiting" + unit);
    expect(u.waiting.empty() && u.waiting_remote.empty(), "instructions that wait" + unit);
    expect(u.claimed_blocks == 0 && u.child_blocks == 0, "blocks that hold places" + unit);
  }
  expect(!translator_ || translator_->empty(), "addresses that were not translated");
  expect(held_events_.empty(), "compute units that are stopped");
  if (loads_ != nullptr && loads_->left() != nullptr) expect(false, loads_->left());
  if (pages_ != nullptr && pages_->left() != nullptr) expect(false, pages_->left());
  expect(waiting_children_.empty() && children_.empty(), "launched kernels that did not end");
  expect(blocks_left_ == 0, std::to_string(blocks_left_) + " blocks that did not run");
}

void gpu::prefetch_tables(const event& e) const {
  if (e.kind == event_kind::load_at_l2 || e.kind == event_kind::store_at_l2) {
    memory_.prefetch(line_access::unpack(e.b).line());
  } else if (e.kind == event_kind::load_done) {
    const compute_unit& u = units_[e.a >> 16U];
    u.l1.prefetch(line_access::unpack(e.b).line());
    __builtin_prefetch(&u.misses[e.a & 0xffffU], 1);
  } else if (e.kind == event_kind::instruction_issues || e.kind == event_kind::warp_wakes) {
    __builtin_prefetch(&warps_[e.a], 1);
  }
}

void gpu::prefetch_targets(const event& e) const {
  if (e.kind == event_kind::load_done) {
    const miss& m = units_[e.a >> 16U].misses[e.a & 0xffffU];
    __builtin_prefetch(m.waiting, 1);
    __builtin_prefetch(&warps_[m.warp], 1);
  } else if (e.kind == event_kind::instruction_issues) {
    const warp& w = warps_[e.a];
    __builtin_prefetch(&w.program[static_cast<std::uint32_t>(e.b)], 1);
    const line_access* lines = w.lines + (e.b >> 32U);
    for (std::size_t k = 0; k < 4; ++k) __builtin_prefetch(lines + k * 8);
  } else if (e.kind == event_kind::warp_wakes) {
    const warp& w = warps_[e.a];
    const instruction* next = w.program + w.next;
    const auto* bytes = reinterpret_cast<const std::byte*>(next);
    for (std::size_t k = 0; k < prefetched_bytes; k += 64) __builtin_prefetch(bytes + k, 1);
  }
}

void gpu::prefetch_departure(const message& m) const {
  if (m.kind != message_kind::store && m.kind != message_kind::atomic) return;
  const compute_unit& u = units_[m.unit];
  __builtin_prefetch(&u.remote_used, 1);
  __builtin_prefetch(&u.waiting_remote, 1);
}

void gpu::handle(const event& e) {
  switch (e.kind) {
    case event_kind::block_starts:
      if (stopped_) return held_events_.push_back(e);
      return start_block(e.a);
    case event_kind::warp_wakes:
      if (stopped_) return held_events_.push_back(e);
      if (warps_[e.a].state == warp_state::waiting || warps_[e.a].state == warp_state::ready) {
        advance(e.a);
      }
      return;
    case event_kind::instruction_issues:
      if (stopped_) return held_events_.push_back(e);
      return issue_again(e.a, static_cast<std::uint32_t>(e.b));
    case event_kind::load_at_l2: {
      const line_access l = line_access::unpack(e.b);
      return push(
          memory_.read(e.time, l.line(), l.sectors(), memory_.beside(e.a >> 16U)) + half_l2_,
          event_kind::load_done, e.a, e.b);
    }
    case event_kind::load_done:
      return load_done(e.a >> 16U, e.a & 0xffffU, line_access::unpack(e.b));
    case event_kind::store_at_l2:
      return store_at_l2(e);
    case event_kind::entry_freed:
      return free_entry(e.a);
    case event_kind::remote_load_at_l2:
      return reply(e);
    case event_kind::page_translated:
      for (const page_waiter& w : translator_->answered(e.a, e.b)) {
        if (--instruction_of(w.warp, w.instruction).untranslated != 0) continue;
        push_issue(queue_.now(), w.warp, w.instruction);
      }
      return;
    default:
      throw model_error("an event that does not belong to a GPU came to gpu" +
                        std::to_string(index_));
  }
}

void gpu::store_at_l2(const event& e) {
  const line_access l = line_access::unpack(e.b);
  const std::uint32_t lanes = e.a & 0xffffU;
  const std::uint32_t unit = e.a >> 16U;
  const std::uint32_t part =
      unit == foreign_unit ? memory_.home_of(l.line()) : memory_.beside(unit);
  const picoseconds taken = lanes != 0 ? memory_.atomic(e.time, l.line(), lanes)
                                       : memory_.write(e.time, l.line(), l.sectors(), part);
  // For a store of another GPU, no compute unit here holds an entry.
  if (e.a >> 16U == foreign_unit) return;
  stores_arrived_ = std::max(stores_arrived_, taken);
  if (taken > e.time) {
    push(taken, event_kind::entry_freed, e.a >> 16U, 0);
  } else {
    free_entry(e.a >> 16U);
  }
}

void gpu::free_entry(std::uint32_t unit) {
  --units_[unit].entries_used;
  resume(units_[unit].waiting);
}

}  // namespace interlace::sim
