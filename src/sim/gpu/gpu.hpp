// One simulated GPU: blocks of the running kernel are placed on compute units, their warps replay
// recorded programs against caches, memory and the fabric.
//
// A warp issues in order. A load holds it only through what depends on it (loads through an index,
// compute, barriers); an instruction that waits for its index lets independent ones behind it go
// ahead, `window` instructions at most under way. Every line that leaves a compute unit holds one
// of its finite entries: a miss until its data are back, a remote store until the link has taken
// it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "kernel/serial_block.hpp"
#include "machine/machine.hpp"
#include "sim/engine/event_queue.hpp"
#include "sim/fabric/fabric.hpp"
#include "sim/gpu/cache.hpp"
#include "sim/gpu/memory.hpp"
#include "sim/gpu/program.hpp"
#include "sim/gpu/recorder.hpp"
#include "sim/gpu/remote_load_counts.hpp"
#include "sim/gpu/translation_counts.hpp"
#include "sim/gpu/translator.hpp"
#include "sim/remote/access_counters.hpp"
#include "sim/remote/egress.hpp"
#include "sim/remote/griffin.hpp"
#include "sim/remote/load_treatment.hpp"
#include "sim/remote/masked_mshr.hpp"
#include "sim/remote/page_migration.hpp"
#include "sim/remote/rdma_cache.hpp"
#include "sim/remote/reply_egress.hpp"
#include "sim/remote/unpacker.hpp"

namespace interlace::sim {

// Device addresses: one slot for each GPU's own memory, and one for unified memory whose pages have
// homes.
struct address_map {
  std::uint32_t slot_bits = 36;
  std::uint32_t devices = 1;
  std::uint64_t page_bytes = 4096;
  std::vector<std::uint8_t> homes;  // of the pages of the unified slot

  std::uint32_t owner(std::uint64_t address) const {
    const auto slot = static_cast<std::uint32_t>(address >> slot_bits);
    if (slot < devices) return slot;
    return homes[(address & ((std::uint64_t{1} << slot_bits) - 1)) / page_bytes];
  }
  // The first address of the unified slot.
  std::uint64_t unified_slot() const { return std::uint64_t{devices} << slot_bits; }
};

// Runs block `index` on the CPU and records it.
using block_function =
    std::function<void(std::uint64_t index, recorder& record, kernel::block_memory& memory)>;

struct gpu_counters {
  std::uint64_t accesses = 0;  // (warp instruction, line) pairs to memory
  std::uint64_t l1_hits = 0;
  std::uint64_t l1_misses = 0;
  store_counts stores;        // of kernels to other devices
  std::uint64_t atomics = 0;  // packets of those
  std::uint64_t atomic_payload = 0;
  std::uint64_t atomic_wire = 0;
  std::uint64_t reads = 0;  // requests of kernels to other devices
  std::uint64_t read_payload = 0;
  std::uint64_t read_wire = 0;
  picoseconds read_latency = 0;  // of those, the sum: from this GPU's port until they are back
  std::uint64_t scalar = 0;      // of the accesses, those that went to scalar caches
  remote_load_counts loads;      // where remote loads are watched
  translation_counts translations;

  // What kernels sent to other devices, and had from them: packets, and their bytes.
  std::uint64_t remote_transactions() const { return stores.packets + atomics + reads; }
  std::uint64_t stored_payload() const { return stores.payload + atomic_payload; }
  std::uint64_t stored_wire() const { return stores.wire + atomic_wire; }
};

class gpu final : public migrating_gpu {
 public:
  gpu(std::uint32_t index, const machine::gpu& config, const address_map& addresses,
      event_queue& queue, fabric& links);

  // Starts a kernel now; an event kernel_ends comes when all blocks have ended and local
  // stores have arrived.
  // `agent_warps` are held by an agent meanwhile. Stores to other devices leave on `path`.
  void start_kernel(grid shape, const recorder::settings& record, const block_function& block,
                    std::uint32_t agent_warps, store_path path);
  // At kernel_ends: a release. False while stores have not reached their queue; then another such
  // event comes.
  bool release();
  void handle(const event& e);

  // A kernel that the running one launched, of so many threads: its blocks take places ahead of
  // blocks that have not started, as they become free. An event child_placed comes when all
  // have one; they keep them until end_child.
  void place_child(std::uint32_t id, std::uint32_t threads);
  void end_child(std::uint32_t id);

  // Before anything runs: what becomes of remote loads. Lives as long as this.
  void treat_loads(load_treatment* treatment);
  // Before anything runs: unified pages move. Lives as long as this.
  void migrate_pages(page_migration* migration) { migration_ = migration; }
  // The same, by what GPUs access.
  void move_pages(griffin* mover) { griffin_ = mover; }
  void drain() override;
  void resume_remote() override;
  picoseconds shoot_down(std::uint64_t address) override;
  void restart() override;
  void drain_pages(const std::vector<std::uint64_t>& addresses) override;
  void drop_page(std::uint64_t address) override;
  picoseconds read_page(std::uint64_t address, std::uint32_t bytes) override;
  picoseconds write_page(std::uint64_t address, std::uint32_t bytes) override;
  void page_arrived(std::uint64_t address, const std::vector<page_waiter>& waiting) override;

  // The RDMA cache is taken into use, out of the L2, or given back. Both begin empty.
  void use_rdma_cache(bool used);

  // When all stores so far have left for where they go; grows while they are under way.
  picoseconds stores_arrived() const { return stores_arrived_; }
  // Fetches what handling the event will touch: first the tables, then what they point to.
  void prefetch_tables(const event& e) const;
  void prefetch_targets(const event& e) const;
  void prefetch_departure(const message& m) const;

  // Messages of the fabric.
  void departed(const message& m);
  void delivered(const message& m);
  // A message of kind packed, whose lines these are.
  void unpack(const message& m, const flushed_window& from);
  // When all packed stores that have arrived are on their way to the L2.
  picoseconds unpacked() const { return unpacker_.clear(); }
  egress& stores() { return egress_; }
  // A message of kind coalesced_reply has come, from a GPU that sent this packet at that time.
  void take_replies(std::span<const std::uint8_t> packet, picoseconds sent);
  reply_egress& replies() { return *replies_; }

  // What an event range_announced is about, until the next forget_announced.
  const kernel::element_range& announced(std::uint32_t which) const { return announced_[which]; }
  void forget_announced() { announced_.clear(); }

  memory& second_level() { return memory_; }
  gpu_counters counters() const {
    gpu_counters found = counters_;
    found.stores = egress_.counts();
    found.loads.l2_loads = memory_.reads();
    found.loads.l2_hits = memory_.read_hits();
    if (translator_) found.translations = translator_->counts();
    if (replies_) {
      found.read_payload += replies_->sent().payload;
      found.read_wire += replies_->sent().wire;
      found.loads.timeouts += replies_->sent().timeouts;
    }
    return found;
  }
  // Time in which compute units issued instructions, the sum of all.
  picoseconds issue_time() const;
  std::uint64_t memory_bytes() const { return memory_.dram_bytes(); }
  // Throws model_error unless every entry, place and queue is free again, as behind a run.
  void check_empty() const;

 private:
  struct waiter {
    instruction* waiting = nullptr;
    std::uint32_t warp = 0;
    std::uint32_t next = none;
  };
  struct miss {
    instruction* waiting = nullptr;  // the first; more are in a list
    std::uint32_t warp = 0;
    std::uint32_t waiters = none;
    picoseconds sent = 0;         // when a remote one left
    bool scalar = false;          // its line is in a scalar cache
    std::uint32_t masked = none;  // its entry among those with masks; then it bypasses the L1
  };
  struct stalled {
    std::uint32_t warp = 0;
    std::uint32_t index = 0;  // of the instruction
    // That, its next line, and what it writes there: to be fetched ahead.
    const instruction* what = nullptr;
    const line_access* line = nullptr;
    const written_bytes* written = nullptr;
  };
  struct compute_unit {
    explicit compute_unit(const machine::gpu& g) : l1(g.l1) {}
    resource issue;
    resource load_store;
    resource stores;  // their way out
    resource pipes[4];
    cache l1;
    std::vector<miss> misses;                // entries; the free ones are in free_misses
    std::optional<masked_mshr> masked;       // where remote loads are treated
    std::vector<std::uint32_t> masked_miss;  // the miss of each of its entries
    std::vector<std::uint32_t> free_misses;
    std::uint32_t entries_used = 0;      // of the local kind: misses and local stores
    std::uint32_t remote_used = 0;       // remote stores waiting for the link
    std::deque<stalled> waiting;         // for a local entry, in order
    std::deque<stalled> waiting_remote;  // for a place in the remote store queue
    std::uint32_t claimed_blocks = 0;    // resident or about to start
    std::uint64_t next_block = 0;        // of those that are this unit's by the dispatch
    std::uint64_t last_block = 0;        // behind them
    std::uint64_t unclaimed_blocks = 0;  // of them, those that nobody has a place for yet
    std::uint32_t child_warps = 0;
    std::uint32_t child_blocks = 0;
  };
  struct child {
    std::uint32_t id = 0;
    std::uint32_t warps_left = 0;      // without a place
    std::vector<std::uint32_t> units;  // where its blocks are
    std::vector<std::uint32_t> warps;  // of those
  };
  enum class warp_state : std::uint8_t { ready, waiting, no_entry, barrier, done };
  struct warp {
    std::uint32_t block = 0;
    std::uint32_t unit = 0;
    instruction* program = nullptr;
    const line_access* lines = nullptr;
    const written_bytes* written = nullptr;
    std::uint32_t size = 0;       // of the program
    std::uint32_t next = 0;       // instruction
    std::uint32_t under_way = 0;  // deferred, stalled or with lines pending
    warp_state state = warp_state::ready;
    picoseconds ready = 0;  // of everything that needs no event
  };
  struct block_slot {
    std::vector<warp_program> programs;
    std::uint32_t unit = 0;
    std::uint32_t warps_left = 0;
    std::uint32_t at_barrier = 0;
    std::vector<kernel::element_range> written;  // to announce without an instruction
    std::uint32_t stores_left = 0;               // before all of that is written
  };

  instruction& instruction_of(std::uint32_t warp_id, std::uint32_t i) {
    return warps_[warp_id].program[i];
  }
  compute_unit& unit_of(std::uint32_t warp_id) { return units_[warps_[warp_id].unit]; }

  void start_block(std::uint32_t unit);
  // Gives free places of a unit to launched kernels first, then to the next block.
  void fill_unit(std::uint32_t unit);
  bool has_place(const compute_unit& u) const;
  // Which blocks are whose by the dispatch, of which `fit_` have place on a
  // unit.
  void share_blocks();
  // The unit's next block takes a place; false if none is left for it.
  bool claim_block(compute_unit& u);
  void place_blocks(child& c, std::uint32_t unit);
  void announce(picoseconds time, const kernel::element_range& range);
  void announce_written(block_slot& b);
  void advance(std::uint32_t warp_id);
  bool run_waiting(std::uint32_t warp_id, instruction& i);
  bool try_memory(std::uint32_t warp_id, std::uint32_t index);
  // Issues the lines of an instruction from next_line on; false when it has to wait for an entry.
  bool issue(std::uint32_t warp_id, std::uint32_t index);
  void issue_again(std::uint32_t warp_id, std::uint32_t index);
  bool issue_load(compute_unit& u, std::uint32_t warp_id, instruction& i, line_access l);
  picoseconds store_leaves(compute_unit& u, line_access l);
  bool issue_store(compute_unit& u, std::uint32_t unit, const instruction& i, line_access l,
                   const written_bytes& written);
  void complete(std::uint32_t warp_id, instruction& i);
  void send_load(picoseconds time, std::uint32_t unit, std::uint32_t entry, line_access l);
  void check_reaches(std::uint32_t owner) const;
  // Whether this GPU may access the line; otherwise the instruction waits for its page.
  bool has_page(std::uint32_t warp_id, std::uint32_t index, std::uint64_t line);
  // Whether the instruction's next line has its translation; otherwise it waits for that.
  bool translated(std::uint32_t warp_id, std::uint32_t index);
  void count_access(std::uint64_t line);
  void check_drained();
  std::uint64_t first_of_page(std::uint64_t line) const {
    return line / addresses_.page_bytes * addresses_.page_bytes;
  }
  // An instruction that was woken for an entry waits for something else, and others can have it.
  void pass_turn(compute_unit& u);
  void reply(const event& e);
  void store_at_l2(const event& e);
  void free_entry(std::uint32_t unit);  // of a local access
  void load_done(std::uint32_t unit, std::uint32_t entry, line_access l);
  void line_arrived(std::uint32_t warp_id, instruction& i);
  void resume(std::deque<stalled>& waiting);
  static stalled stalled_at(const warp& w, std::uint32_t warp_id, std::uint32_t index);
  void free_remote();  // places of stores that have been taken
  void end_warp(std::uint32_t warp_id);
  void release_barrier(std::uint32_t block);
  void check_kernel_end();

  // NOLINTNEXTLINE(bugprone-incorrect-roundings): never negative, and lround is slow
  picoseconds clocks(double n) const { return static_cast<picoseconds>(n * clock_ps_ + 0.5); }
  // How long a warp has the issue slots for so many instructions, and a pipe for so many operations
  // of each lane: from tables where there are few.
  picoseconds issue_time_of(std::uint32_t instructions) const {
    if (instructions < known_counts) return issue_times_[instructions];
    return clocks(static_cast<double>(instructions) / config_.issue.instructions);
  }
  picoseconds cycle_time_of(std::uint32_t cycles) const {
    return cycles < known_counts ? cycle_times_[cycles] : clocks(static_cast<double>(cycles));
  }
  picoseconds pipe_time_of(operation op, std::uint32_t count) const {
    const auto pipe = static_cast<std::size_t>(op);
    if (count < known_counts) return pipe_times_[pipe][count];
    return clocks(static_cast<double>(count) * config_.warp_width / rates_[pipe]);
  }
  std::uint32_t take_miss(compute_unit& u);
  // Where a load looks: the compute unit's own cache, or the scalar one that it shares.
  cache& cache_of(compute_unit& u, std::uint32_t unit, bool scalar) {
    return scalar ? scalar_l1_[unit / config_.scalar_l1.compute_units] : u.l1;
  }
  bool issue_bypassing(compute_unit& u, std::uint32_t warp_id, instruction& i, line_access l);
  void wait_for(compute_unit& holder, std::uint32_t entry, std::uint32_t warp_id, instruction& i);
  void request(picoseconds time, std::uint32_t unit, std::uint32_t entry, line_access l,
               std::uint32_t owner, piece_mask pieces);
  void replied(std::uint32_t unit, std::uint32_t entry, line_access l);
  std::uint32_t words_of(const warp& w, const instruction& i) const {
    return blocks_[w.block].programs[place_of(w)].words[i.first_line + i.next_line];
  }
  picoseconds& began_of(const warp& w, const instruction& i) {
    return blocks_[w.block].programs[place_of(w)].began[i.first_line];
  }
  // Of the warps of its block.
  std::size_t place_of(const warp& w) const {
    return static_cast<std::size_t>(&w - &warps_[w.block * warps_per_block_]);
  }
  // `hit`: whether the L1 has it, if it looked there.
  void count_load(const warp& w, const instruction& i, line_access l, std::optional<bool> hit);
  void push(picoseconds time, event_kind kind, std::uint32_t a, std::uint64_t b) {
    queue_.push(time, kind, static_cast<std::uint16_t>(index_), a, b);
  }

  // Carries where the instruction's lines start, so that they can be fetched ahead.
  void push_issue(picoseconds time, std::uint32_t warp_id, std::uint32_t index) {
    const std::uint64_t first_line = warps_[warp_id].program[index].first_line;
    push(time, event_kind::instruction_issues, warp_id, index | first_line << 32U);
  }

  static constexpr std::uint32_t window = 8;

  std::uint32_t index_;
  machine::gpu config_;
  const address_map& addresses_;
  event_queue& queue_;
  fabric& fabric_;
  double clock_ps_;
  picoseconds half_l2_;
  static constexpr std::uint32_t known_counts = 256;
  std::array<std::uint32_t, operation_kinds> rates_;
  std::array<picoseconds, known_counts> cycle_times_{};
  std::array<picoseconds, known_counts> issue_times_{};
  std::array<std::array<picoseconds, known_counts>, operation_kinds> pipe_times_{};
  picoseconds lookup_ = 0;        // of a line in the L1
  picoseconds sector_store_ = 0;  // that a store of a sector takes of the way; 0: nothing
  picoseconds translation_ = 0;   // of its address, where the L1 TLB has it
  picoseconds half_port_;         // of what comes from other GPUs

  memory memory_;
  egress egress_;
  std::optional<translator> translator_;
  unpacker unpacker_;
  load_treatment* treatment_ = nullptr;  // of remote loads; null: none
  page_migration* migration_ = nullptr;  // of pages; null: they stay, or the next one moves them
  griffin* griffin_ = nullptr;
  access_counters accessed_;  // in the period that follows
  std::uint64_t counting_period_ = 0;
  std::vector<std::uint64_t> draining_pages_;                    // their addresses; empty: none
  std::unordered_map<std::uint64_t, std::uint32_t> page_reads_;  // remote loads under way, by that
  bool draining_ = false;                                        // no remote access leaves
  bool stopped_ = false;                                         // compute units do nothing
  std::uint64_t reads_under_way_ = 0;
  std::vector<message> held_requests_;  // until remote accesses go on
  std::vector<event> held_events_;      // until compute units do
  std::optional<reply_egress> replies_;
  reply_decoalescer decoalescer_;
  std::optional<rdma_cache> rdma_;
  // Who waits for a line that is not in it: compute unit << 16 | entry.
  std::unordered_map<std::uint64_t, std::vector<std::uint32_t>> rdma_waiting_;
  bool retrying_ = false;  // an instruction that waited is issued again
  bool ending_ = false;    // the kernel waits for its stores to be taken
  std::vector<compute_unit> units_;
  std::vector<cache> scalar_l1_;
  std::vector<warp> warps_;  // [block slot][warp of the block]
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
  std::uint32_t fit_ = 0;               // blocks of a compute unit
  std::deque<child> waiting_children_;  // in the order of their launches
  std::vector<child> children_;         // placed
  std::uint32_t next_unit_ = 0;         // to look for a child's places
  std::uint64_t next_block_ = 0;        // of those that are no unit's by the dispatch
  std::uint64_t unclaimed_blocks_ = 0;
  std::uint64_t blocks_left_ = 0;
  picoseconds stores_arrived_ = 0;
  recorder recorder_;
  kernel::block_memory scratch_;
  gpu_counters counters_;
};

}  // namespace interlace::sim
