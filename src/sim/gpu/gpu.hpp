// One simulated GPU. Blocks of the running kernel are placed on compute units. The warps of these
// blocks replay recorded programs against caches, memory and the fabric.
//
// A warp issues its instructions in order. A load by itself does not stall the warp. The warp
// stalls only at an instruction that depends on the load (a load through an index, compute, a
// barrier). While an instruction waits for its index, later independent instructions go ahead, with
// at most `window` instructions in flight. Every line that leaves a compute unit holds one of the
// unit's finite entries: a miss holds its entry until its data has returned, and a remote store
// holds its entry until the link has taken the store.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "interlace/kernel/serial_block.hpp"
#include "interlace/machine/machine.hpp"
#include "interlace/sim/gpu/program.hpp"
#include "interlace/sim/gpu/recorder.hpp"
#include "sim/engine/crew.hpp"
#include "sim/engine/event_queue.hpp"
#include "sim/fabric/fabric.hpp"
#include "sim/gpu/block_recording.hpp"
#include "sim/gpu/cache.hpp"
#include "sim/gpu/gpu_counters.hpp"
#include "sim/gpu/memory.hpp"
#include "sim/gpu/remote_accesses.hpp"
#include "sim/gpu/remote_load_counts.hpp"
#include "sim/gpu/translator.hpp"

namespace interlace::sim {

// The layout of device addresses. Each GPU's own memory has a slot. Unified memory has one more
// slot, whose pages have home GPUs.
struct address_map {
  std::uint32_t slot_bits = 36;
  std::uint32_t devices = 1;
  std::uint64_t page_bytes = 4096;
  std::vector<std::uint8_t> homes;  // the home GPU of each page of the unified slot

  std::uint32_t owner(std::uint64_t address) const {
    const auto slot = static_cast<std::uint32_t>(address >> slot_bits);
    if (slot < devices) return slot;
    return homes[(address & ((std::uint64_t{1} << slot_bits) - 1)) / page_bytes];
  }
  // The first address of the unified slot.
  std::uint64_t unified_slot() const { return std::uint64_t{devices} << slot_bits; }
};

class gpu {
 public:
  gpu(std::uint32_t index, const machine::gpu& config, const address_map& addresses,
      event_queue& queue, fabric& links);

  // Starts a kernel now. The event kernel_ends comes when all blocks have ended and all local
  // stores have arrived. An agent occupies `agent_warps` warps while the kernel runs.
  void start_kernel(grid shape, const recorder::settings& record, const block_function& block,
                    std::uint32_t agent_warps);
  void handle(const event& e);

  // Places a kernel of `threads` threads that the running kernel has launched. When places become
  // free, blocks of the launched kernel take them before the running kernel's blocks that have not
  // started. The event child_placed comes when all blocks of the launched kernel are placed. These
  // blocks keep their places until end_child.
  void place_child(std::uint32_t id, std::uint32_t threads);
  void end_child(std::uint32_t id);

  // The time by which all stores so far will have left for their destination. The value grows while
  // stores are in flight.
  picoseconds stores_arrived() const { return stores_arrived_; }
  // These functions prefetch the data that handling an event will touch: first the tables, and
  // later the data to which the tables point.
  void prefetch_tables(const event& e) const;
  void prefetch_targets(const event& e) const;
  void prefetch_departure(const message& m) const;

  // These functions handle messages of the fabric: the loads, stores and atomics to which no
  // special rules apply.
  void departed(const message& m);
  void delivered(const message& m);

  // The range that belongs to an event of the kind `range_announced`. The reference is valid until
  // the next forget_announced.
  const kernel::element_range& announced(std::uint32_t which) const { return announced_[which]; }
  void forget_announced() { announced_.clear(); }

  gpu_counters counters() const;
  // The number of accesses of lanes in all blocks so far (recorder::work).
  std::uint64_t work() const { return recording_.work(); }
  // Sets the threads that record blocks of kernels ahead, by record_ahead(). With null there are no
  // such threads.
  void use_helpers(crew* helpers) { helpers_ = helpers; }
  // Records a block of the running kernel ahead (block_recording::record_ahead).
  bool record_ahead() { return recording_.record_ahead(); }
  // The time in which compute units issued instructions, summed over the units. Each of a unit's
  // sub-cores counts as an equal share of the unit.
  picoseconds issue_time() const;
  std::uint64_t memory_bytes() const { return memory_.dram_bytes(); }
  // Throws model_error unless every entry, place and queue is free again. All of them must be free
  // after a run.
  void check_empty() const;

  // --- For the objects that handle remote accesses in special ways (sim/gpu/remote_accesses.hpp).

  // Sets the queues of stores; null means no queues. Call this function while no kernel runs. The
  // GPU keeps the pointers that queue_stores, treat_loads and move_pages get. The objects must live
  // as long as the GPU uses them.
  void queue_stores(store_queues* queues) { queues_ = queues; }
  // Call treat_loads and move_pages before the first kernel.
  void treat_loads(load_rules* rules) { loads_ = rules; }
  void move_pages(page_rules* rules) { pages_ = rules; }

  std::uint32_t index() const { return index_; }
  const machine::gpu& config() const { return config_; }
  const address_map& addresses() const { return addresses_; }
  // The objects that handle accesses add their counts to these counters.
  gpu_counters& counted() { return counters_; }
  memory& second_level() { return memory_; }
  // Latency from the port of a link to the L2, one way.
  picoseconds port_to_l2() const { return half_port_; }
  picoseconds to_l2() const { return half_l2_; }

  // Sends a message of a load or an atomic at `time`, through the queues if there are any.
  void leave(picoseconds time, const message& m) {
    queues_ != nullptr ? queues_->pass(time, m) : fabric_.send(time, m);
  }
  // Says that a queue or the link has taken a store of the compute unit.
  void store_taken(std::uint32_t unit);
  // Says that the stores of another GPU to a line reach the L2's bank at `time`.
  void store_arrives(picoseconds time, line_access l) {
    push(time, event_kind::store_at_l2, foreign_unit << 16U, l.packed());
  }
  // Checks again whether the kernel has ended. A kernel ends only once all its stores have been
  // handed over.
  void end_kernel_again() { push(queue_.now(), event_kind::kernel_ends, 0, 0); }

  // Whether a compute unit has a free entry for one more miss.
  bool has_entry(std::uint32_t unit) const { return units_[unit].entries_used < config_.l1.mshrs; }
  // Passes a load through the L1. Returns the time when the load reaches the L2.
  picoseconds pass_l1(std::uint32_t unit);
  // Takes an entry for a miss whose line does not go to the L1. Returns the number of the entry.
  // load_rules::entry_done later gets `token`.
  std::uint32_t take_entry(std::uint32_t unit, std::uint32_t token);
  std::uint32_t token_of(std::uint32_t unit, std::uint32_t entry) const {
    return units_[unit].misses[entry].token;
  }
  void wait_for(std::uint32_t unit, std::uint32_t entry, std::uint32_t warp_id, instruction& i) {
    wait_for(units_[unit], entry, warp_id, i);
  }
  // The 4-byte words of the load's current line that the lanes read.
  std::uint32_t words_of(std::uint32_t warp_id, const instruction& i) const {
    return words_of(warps_[warp_id], i);
  }
  // Counts a load that did not look up the L1.
  void count_passed_load(std::uint32_t warp_id, const instruction& i, line_access l) {
    count_load(warps_[warp_id], i, l, {});
  }
  // Requests a line from the GPU that owns it. If `part` is not 0, the rules of that GPU interpret
  // `part`.
  void request(picoseconds time, std::uint32_t unit, std::uint32_t entry, line_access l,
               std::uint32_t part);
  // Answers a request for a line with a reply of `payload` bytes.
  void send_reply(picoseconds time, const load_rules::part& p, std::uint32_t payload);
  // Says that the reply to a request has arrived.
  void replied(std::uint32_t unit, std::uint32_t entry, line_access l);
  // Says that the data for an entry has arrived now, or arrives at `time`.
  void load_done(std::uint32_t unit, std::uint32_t entry, line_access l);
  void load_done_at(picoseconds time, std::uint32_t unit, std::uint32_t entry, line_access l) {
    push(time, event_kind::load_done, unit << 16U | entry, l.packed());
  }

  // Stops the compute units until `go_on`.
  void stop() { stopped_ = true; }
  void go_on();
  // From now on, no remote store or atomic leaves the GPU until `release_stores` is called.
  void hold_stores() { stores_held_ = true; }
  void release_stores();
  void issue_waiting(const page_waiter& w) { push_issue(queue_.now(), w.warp, w.instruction); }
  // forget_translation removes the translation of an address, and learn_translation adds it.
  void forget_translation(std::uint64_t address);
  void learn_translation(std::uint64_t address);
  // invalidate_l1s empties the first-level caches. erase_from_l1s drops only the lines in a range
  // of addresses.
  void invalidate_l1s();
  void erase_from_l1s(std::uint64_t address, std::uint64_t bytes);

 private:
  struct waiter {
    instruction* waiting = nullptr;
    std::uint32_t warp = 0;
    std::uint32_t next = none;
  };
  struct miss {
    // The first waiting instruction. It is the head of a list of all instructions that wait.
    instruction* waiting = nullptr;
    std::uint32_t warp = 0;
    std::uint32_t waiters = none;
    picoseconds sent = 0;  // the time when a remote request left
    bool scalar = false;   // whether the miss is one of a scalar cache
    // The token of the rules for loads, if these rules took the entry. The line of such an entry is
    // not in the L1.
    std::uint32_t token = none;
  };
  struct stalled {
    std::uint32_t warp = 0;
    std::uint32_t index = 0;  // the index of the instruction
    // `what` is the instruction, `line` is its next line, and `written` has the bytes that it
    // writes. The pointers are kept here for the prefetch.
    const instruction* what = nullptr;
    const line_access* line = nullptr;
    const written_bytes* written = nullptr;
  };
  // A part of a compute unit that has its own lanes and issue slots. A warp stays in one sub-core.
  struct sub_core {
    resource issue;
    resource pipes[operation_kinds];
  };
  static constexpr std::uint32_t most_sub_cores = 8;
  struct compute_unit {
    explicit compute_unit(const machine::gpu& g) : l1(g.l1) {}
    // The unit's sub-cores. Elements beyond the machine's number of sub-cores are not used.
    std::array<sub_core, most_sub_cores> sub_cores;
    std::uint32_t next_sub_core = 0;  // sub-core for the next warp that starts
    resource load_store;
    resource stores;  // serves stores at the rate at which they leave the unit
    cache l1;
    std::vector<miss> misses;  // the entries; free_misses lists those that are free
    std::vector<std::uint32_t> free_misses;
    std::uint32_t entries_used = 0;  // entries that local misses and local stores hold
    std::uint32_t remote_used = 0;   // entries that remote stores hold while they wait for the link
    std::deque<stalled> waiting;     // instructions that wait for a local entry, in order
    // instructions that wait for a place in the remote store queue, in order
    std::deque<stalled> waiting_remote;
    std::uint32_t claimed_blocks = 0;  // blocks that are resident or about to start
    // The first of the blocks that the dispatch gives to this unit and that have not started.
    std::uint64_t next_block = 0;
    std::uint64_t last_block = 0;        // end of the range of this unit's blocks
    std::uint64_t unclaimed_blocks = 0;  // number of blocks of this range that have no place yet
    std::uint32_t child_warps = 0;
    std::uint32_t child_blocks = 0;
  };
  struct child {
    std::uint32_t id = 0;
    std::uint32_t warps_left = 0;  // number of warps without a place
    // The numbers of the compute units that hold blocks of the kernel.
    std::vector<std::uint32_t> units;
    std::vector<std::uint32_t> warps;  // number of the kernel's warps on each of these units
  };
  enum class warp_state : std::uint8_t { ready, waiting, no_entry, barrier, done };
  struct warp {
    std::uint32_t block = 0;
    std::uint16_t unit = 0;
    std::uint16_t sub_core = 0;
    instruction* program = nullptr;
    const line_access* lines = nullptr;
    const written_bytes* written = nullptr;
    std::uint32_t size = 0;  // number of instructions in the program
    std::uint32_t next = 0;  // number of the next instruction
    // The number of instructions that are deferred, stalled or have pending lines.
    std::uint32_t under_way = 0;
    warp_state state = warp_state::ready;
    picoseconds ready = 0;  // the time when all work that needs no event is done
    // The time at which all operations so far are issued; accesses may issue from then on.
    picoseconds issues = 0;
  };
  struct block_slot : block_recording::block {
    std::uint32_t unit = 0;
    std::uint32_t warps_left = 0;
    std::uint32_t at_barrier = 0;
  };

  instruction& instruction_of(std::uint32_t warp_id, std::uint32_t i) {
    return warps_[warp_id].program[i];
  }
  compute_unit& unit_of(std::uint32_t warp_id) { return units_[warps_[warp_id].unit]; }
  sub_core& sub_core_of(const warp& w) { return units_[w.unit].sub_cores[w.sub_core]; }

  void start_block(std::uint32_t unit);
  // Gives free places of a unit to device-launched kernels first, and then to the unit's next
  // block.
  void fill_unit(std::uint32_t unit);
  bool has_place(const compute_unit& u) const;
  // Resizes the L1s for a kernel whose resident blocks on a unit have `shared` bytes of shared
  // memory.
  void resize_l1s(std::uint64_t shared);
  std::uint32_t blocks_with_registers(std::uint32_t registers, std::uint32_t warps) const;
  // Distributes the blocks over the units in the way that the dispatch says. At most `fit_` blocks
  // fit on a unit at a time.
  void share_blocks();
  // Places the unit's next block. Returns false if no block is left for the unit.
  bool claim_block(compute_unit& u);
  void place_blocks(child& c, std::uint32_t unit);
  void announce(picoseconds time, const kernel::element_range& range);
  void announce_written(block_slot& b);
  void advance(std::uint32_t warp_id);
  bool run_waiting(std::uint32_t warp_id, instruction& i);
  bool try_memory(std::uint32_t warp_id, std::uint32_t index);
  // Issues the lines of an instruction, beginning with next_line. Returns false if the instruction
  // must wait for an entry.
  bool issue(std::uint32_t warp_id, std::uint32_t index);
  void issue_again(std::uint32_t warp_id, std::uint32_t index);
  bool issue_load(compute_unit& u, std::uint32_t warp_id, instruction& i, line_access l);
  picoseconds store_leaves(compute_unit& u, line_access l);
  void send_store(picoseconds time, std::uint32_t unit, std::uint32_t owner, line_access l,
                  const written_bytes& written);
  bool issue_store(compute_unit& u, std::uint32_t unit, const instruction& i, line_access l,
                   const written_bytes& written);
  void complete(std::uint32_t warp_id, instruction& i);
  void send_load(picoseconds time, std::uint32_t unit, std::uint32_t entry, line_access l);
  void check_reaches(std::uint32_t owner) const;
  // Returns true if the translation of the instruction's next line is known. Otherwise makes the
  // instruction wait for the translation and returns false.
  bool translated(std::uint32_t warp_id, std::uint32_t index);
  // Gives the entry to the next waiting instruction. Callers use this function if the instruction
  // that was woken for the entry waits for something else.
  void pass_turn(compute_unit& u);
  void reply(const event& e);
  void store_at_l2(const event& e);
  void free_entry(std::uint32_t unit);  // frees the entry of a local access
  void line_arrived(std::uint32_t warp_id, instruction& i);
  void resume(std::deque<stalled>& waiting);
  static stalled stalled_at(const warp& w, std::uint32_t warp_id, std::uint32_t index);
  void end_warp(std::uint32_t warp_id);
  void release_barrier(std::uint32_t block);
  void check_kernel_end();

  // NOLINTNEXTLINE(bugprone-incorrect-roundings): the value is never negative, and lround is slow
  picoseconds clocks(double n) const { return static_cast<picoseconds>(n * clock_ps_ + 0.5); }
  // issue_time_of returns how long a warp occupies its sub-core's issue slots with `instructions`
  // instructions. pipe_time_of returns how long the warp occupies the pipe of `op` with `count`
  // operations in each lane. Small counts come from tables.
  picoseconds issue_time_of(std::uint32_t instructions) const {
    if (instructions < known_counts) return issue_times_[instructions];
    return clocks(static_cast<double>(instructions) * sub_cores_ / config_.issue.instructions);
  }
  picoseconds cycle_time_of(std::uint32_t cycles) const {
    return cycles < known_counts ? cycle_times_[cycles] : clocks(static_cast<double>(cycles));
  }
  picoseconds pipe_time_of(operation op, std::uint32_t count) const {
    const auto pipe = static_cast<std::size_t>(op);
    if (count < known_counts) return pipe_times_[pipe][count];
    return clocks(static_cast<double>(count) * config_.warp_width * sub_cores_ / rates_[pipe]);
  }
  // The time of `count` operations if each operation needs the result of the previous operation.
  picoseconds latency_of(operation op, std::uint32_t count) const {
    const double each = latencies_[static_cast<std::size_t>(op)];
    return each == 0 ? 0 : clocks(each * count);
  }
  std::uint32_t take_miss(compute_unit& u);
  // The cache that a load uses: the compute unit's own cache, or the scalar cache that several
  // units share.
  cache& cache_of(compute_unit& u, std::uint32_t unit, bool scalar) {
    return scalar ? scalar_l1_[unit / config_.scalar_l1.compute_units] : u.l1;
  }
  void wait_for(compute_unit& holder, std::uint32_t entry, std::uint32_t warp_id, instruction& i);
  std::uint32_t words_of(const warp& w, const instruction& i) const {
    return blocks_[w.block].programs[place_of(w)].words[i.first_line + i.next_line];
  }
  picoseconds& began_of(const warp& w, const instruction& i) {
    return blocks_[w.block].programs[place_of(w)].began[i.first_line];
  }
  // The warp's index within its block.
  std::size_t place_of(const warp& w) const {
    return static_cast<std::size_t>(&w - &warps_[w.block * warps_per_block_]);
  }
  // Counts a load. `hit` has a value if the load looked up the L1; the value says whether the L1
  // has the line.
  void count_load(const warp& w, const instruction& i, line_access l, std::optional<bool> hit);
  void push(picoseconds time, event_kind kind, std::uint32_t a, std::uint64_t b) {
    queue_.push(time, kind, static_cast<std::uint16_t>(index_), a, b);
  }

  // The event carries the address of the instruction's lines, so that the event loop can prefetch
  // the lines.
  void push_issue(picoseconds time, std::uint32_t warp_id, std::uint32_t index) {
    const std::uint64_t first_line = warps_[warp_id].program[index].first_line;
    push(time, event_kind::instruction_issues, warp_id, index | first_line << 32U);
  }

  static constexpr std::uint32_t window = 8;
  // The unit number in events of other GPUs' stores.
  static constexpr std::uint32_t foreign_unit = 0xffffU;

  std::uint32_t index_;
  machine::gpu config_;
  std::uint32_t joined_bytes_;  // the most bytes of neighbouring lanes that leave as one store
  const address_map& addresses_;
  event_queue& queue_;
  fabric& fabric_;
  double clock_ps_;
  picoseconds half_l2_;
  static constexpr std::uint32_t known_counts = 256;
  std::uint32_t sub_cores_;
  std::array<std::uint32_t, operation_kinds> rates_;
  std::array<double, operation_kinds> latencies_;  // in clocks
  picoseconds shuffle_latency_;
  std::uint64_t l1_bytes_;
  picoseconds vote_latency_;
  picoseconds reduction_latency_;
  picoseconds shared_latency_;
  picoseconds barrier_latency_;
  picoseconds barrier_warp_latency_;
  picoseconds loop_latency_;
  // The time in which the load/store unit computes the addresses of a load's lanes.
  picoseconds load_addresses_;
  // time of the load/store unit for a hit; the index is the number of sectors
  std::array<picoseconds, 7> hit_times_{};
  std::array<picoseconds, known_counts> cycle_times_{};
  std::array<picoseconds, known_counts> issue_times_{};
  std::array<std::array<picoseconds, known_counts>, operation_kinds> pipe_times_{};
  picoseconds lookup_ = 0;  // time of a line's lookup in the L1
  // The time for which the store of a sector occupies the compute unit's output. 0 means no time.
  picoseconds sector_store_ = 0;
  picoseconds translation_ = 0;  // time of a translation that hits in the L1 TLB
  picoseconds half_port_;        // time from a port to the L2, one way, for accesses of other GPUs

  memory memory_;
  std::optional<translator> translator_;
  store_queues* queues_ = nullptr;
  load_rules* loads_ = nullptr;
  page_rules* pages_ = nullptr;
  bool stores_held_ = false;
  bool stopped_ = false;            // whether the compute units are stopped
  std::vector<event> held_events_;  // events that came while the compute units are stopped
  bool retrying_ = false;           // whether an instruction that had to wait is being issued again
  std::vector<compute_unit> units_;
  std::vector<cache> scalar_l1_;
  // The index has two parts: the slot of a block, and a warp of that block.
  std::vector<warp> warps_;
  block_recording recording_;
  crew* helpers_ = nullptr;  // null if no other thread records blocks
  std::vector<block_slot> blocks_;
  std::vector<std::uint32_t> free_blocks_;
  std::vector<waiter> waiters_;
  std::vector<kernel::element_range> announced_;
  std::uint32_t free_waiter_ = none;

  // The running kernel.
  grid shape_;
  recorder::settings record_;
  const block_function* block_ = nullptr;
  std::uint32_t warps_per_block_ = 0;
  std::uint32_t fit_ = 0;  // number of blocks that fit on a compute unit
  // Device-launched kernels with blocks that have no place, in launch order.
  std::deque<child> waiting_children_;
  std::vector<child> children_;  // device-launched kernels whose blocks all have places
  // The unit at which the search for places of a device-launched kernel begins.
  std::uint32_t next_unit_ = 0;
  std::uint64_t next_block_ = 0;  // the next of the blocks that are assigned to no unit
  std::uint64_t unclaimed_blocks_ = 0;
  std::uint64_t blocks_left_ = 0;
  picoseconds stores_arrived_ = 0;
  gpu_counters counters_;
};

}  // namespace interlace::sim
