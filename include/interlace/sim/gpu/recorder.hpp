// Turns the accesses of a block's lanes into the instructions of the block's warps. The lanes run
// one after another.
//
// Accesses of different lanes are the same instruction if they come from the same place in the
// source and if their enclosing lane.range loops are in the same iterations. A lane can reach an
// instruction that no lane has reached before. In this case, the recorder inserts the instruction
// after the instruction that the lane executed last. This rule keeps program order for every path
// of the first lane.
//
// For a warp.repeated, the recorder keeps the instructions of the lanes of one warp. For all other
// warps it records only addresses.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "interlace/kernel/chunk_table.hpp"
#include "interlace/kernel/mapping.hpp"
#include "interlace/kernel/serial_block.hpp"
#include "interlace/kernel/use_tracker.hpp"
#include "interlace/sim/gpu/program.hpp"
#include "interlace/sim/gpu/repeated.hpp"
#include "interlace/sim/gpu/subscribed_pages.hpp"

namespace interlace::sim {

namespace trace {
struct instruction;
class sink;
}  // namespace trace

class recorder {
 public:
  template <class I>
  using index = kernel::dependent_index<I>;
  static constexpr bool active = true;

  struct settings {
    std::uint32_t warp_width = 32;
    std::uint32_t line_bytes = 128;
    std::uint32_t sector_bytes = 32;
    const std::byte* address_base = nullptr;  // pointer to device address 0
    bool stores_inline = false;
    bool watch_words = false;  // whether to fill warp_program::words
    std::uint32_t device = 0;
    // One element for each region id. The element is null if the region is not tracked.
    std::vector<kernel::use_tracker*> regions;
    // One element for each region id, if devices subscribe to pages of the region. The list is
    // empty if no region has such subscriptions.
    std::vector<subscribed_pages*> subscribed;
    std::uint32_t slot_bits = 0;  // address >> slot_bits gives the device that owns the memory
    kernel::trace_totals* totals = nullptr;  // sums over all accesses; null if nothing is summed
    // The chunks of a tracked launch. The pointer is null if the launch needs no announcements.
    const std::vector<kernel::chunk>* chunks = nullptr;
    // One counter of 8 bytes for each chunk, in the device's memory. The pointer is null if the
    // stores themselves update the counters.
    const std::byte* counters = nullptr;
    // Whether a block must run when it starts, and not ahead of time. Kernels that update the
    // memory of other devices need this setting, because kernels of those devices may update the
    // same memory.
    bool in_turn = false;
    trace::sink* log = nullptr;  // receives every action; null if nothing is logged
    std::uint32_t launch = 0;    // number of the launch in the log
    compiled_kernel code;        // the compiler's numbers for the kernel
    // Whether the GPU's ballots, and its reductions of 32-bit integers over a warp, have their own
    // times. If not, ballots and reductions take the time of register exchanges.
    bool votes = false;
    bool reduces = false;
    // Whether the number of iterations that the compiler unrolls limits the loads that a loop has
    // in flight.
    bool unrolls = false;
    // One operation computes the minimum of this many integers.
    std::uint32_t minimum_inputs = 2;
  };

  // Clears `programs`, which has one element for each warp of the block.
  void begin_block(const settings& s, std::vector<warp_program>& programs);
  void end_block();
  // Adds the next instruction of a warp, as if a kernel had executed it. Call this function between
  // begin_block and end_block. The addresses in `i` are device addresses.
  void add(std::uint32_t warp, const trace::instruction& i);

  // The number of lanes' accesses for which kernel::counts_as_work holds, in all blocks so far.
  std::uint64_t work() const { return work_; }

  bool stores_inline() const { return settings_->stores_inline; }
  bool unrolls() const { return settings_->unrolls; }
  void begin_segment();
  void begin_lane(std::uint32_t lane) {
    const std::uint32_t warp = lane >> lane_bits_;
    if (warp != warp_) {
      flush();
      warp_ = warp;
    }
    lane_ = lane - (warp << lane_bits_);
    lane_bit_ = std::uint64_t{1} << lane_;
    loop_key_ = key_mark;
    go_behind(none);
  }
  // The function is always inlined, because most properties of an access are known when the kernel
  // is compiled. It passes no reference to the access on. Otherwise the compiler would have to
  // write the whole access to memory.
  [[gnu::always_inline]] std::uint32_t on_access(const kernel::access& a) {
    if (kernel::counts_as_work(a)) ++work_;
    const instruction_kind kind = kind_of(a);
    auto address = reinterpret_cast<std::uintptr_t>(a.address);
    if (a.space != kernel::memory_space::shared) address -= address_base_;
    if (a.space == kernel::memory_space::replicated && !note_region(a, kind, address)) {
      return kernel::no_instruction;
    }
    const std::uint32_t before = cursor_;
    node& n = reach(key_of(a.site), kind, a.bytes, a.space);
    n.lanes |= lane_bit_;
    if (a.kind == kernel::access_kind::store && before != none) {
      // A stored value depends on the last value that was loaded before the store.
      n.depends = before;
    } else if (a.depends != none && a.depends >= first_id_) {
      n.depends = a.depends - first_id_;
    }
    *slot_ = address;
    step();
    if (keeps_) [[unlikely]]
      note_repeated(a.space, kind);
    return cursor_ + first_id_;
  }
  [[gnu::always_inline]] void on_compute(const operations& work, kernel::site_id site) {
    node& n = reach(key_of(site), instruction_kind::compute, 0, {});
    // The counts of operations are in the array that otherwise holds the addresses of accesses. The
    // warp takes as long as the lane with the most operations.
    std::uint64_t* most = slot_ - lane_;
    const std::array<std::uint32_t, operation_kinds> counts{
        work.fp32, work.fp64, work.integer + minima(work.minimum), work.special};
    if (n.lanes == 0) std::fill_n(most, operation_kinds, 0);
    n.lanes |= lane_bit_;
    for (std::size_t k = 0; k < operation_kinds; ++k) {
      if (counts[k] != 0) most[k] = std::max<std::uint64_t>(most[k], counts[k]);
    }
    step();
    if (settings_->totals != nullptr) [[unlikely]] {
      for (std::size_t k = 0; k < operation_kinds; ++k) {
        settings_->totals->operations[k] += counts[k];
      }
    }
  }
  void on_iteration_end() { nodes_[cursor_].ends_iteration = true; }
  std::uint64_t enter_loop(kernel::site_id site) {
    const std::uint64_t outside = loop_key_;
    loop_key_ = mix(key_of(site) + 1) | key_mark;
    return outside;
  }
  void next_iteration() { loop_key_ = (loop_key_ + iteration_step) | key_mark; }
  void leave_loop(std::uint64_t outside) { loop_key_ = outside; }
  void on_uniform();
  void on_acquire_release();
  void on_barrier(bool whole_block);
  void on_shuffle(std::uint32_t warp, std::uint32_t n, operation kind, std::uint32_t operations);
  void on_vote(std::uint32_t warp);
  void on_reduction(std::uint32_t warp, std::uint32_t steps, operation kind);
  bool begin_repeated(std::uint32_t warp, std::uint32_t lanes, const void* place,
                      std::uint32_t key);
  // Throws model_error if the lanes did something that must not be repeated.
  void end_repeated();
  class known_lanes;
  known_lanes watch_repeated();
  // Throws model_error if these lanes made more or fewer accesses than the recorded lanes.
  void end_repeated(const known_lanes& watched);
  void on_publish(std::uint32_t, std::uint64_t begin, std::uint64_t end) {
    if (settings_->chunks == nullptr) return;
    published_ = true;
    announce({{begin, end}});
  }
  // Ends the block. Call this function at the kernel's end. It announces the block's mapped ranges,
  // unless the block has published.
  void finish(const std::vector<kernel::element_range>& mapped) {
    if (published_) return;
    if (settings_->counters != nullptr) {
      announce(mapped);
    } else {
      written_at_end_ = mapped;
    }
  }
  // Appends the ranges that the block announces without an instruction. Returns the number of
  // stores after which all these ranges are written.
  std::uint32_t take_written(std::vector<kernel::element_range>& to) {
    to.swap(written_at_end_);
    return std::exchange(counted_stores_, 0U);
  }

 private:
  std::uint32_t minima(std::uint32_t n) const {
    // One operation combines a minimum with this many further integers.
    const std::uint32_t more = settings_->minimum_inputs - 1;
    return (n + more - 1) / more;
  }
  struct node {
    // This member is the node's key if two conditions hold, and otherwise 0, which is not a key.
    // First, this node is the first instance of its key. Second, this node is stored directly after
    // the node that a lane executes before it.
    std::uint64_t key_in_order = 0;
    std::uint64_t lanes = 0;  // one bit for each lane that reached the node
    std::uint64_t key = 0;    // place in the source and iterations; all instances have the same key
    std::uint32_t next = none;  // next node in program order
    // The previous instance of this node's key. A lane that reaches the same place twice outside of
    // all range loops reaches two instances.
    std::uint32_t instance_before = none;
    std::uint32_t instance_behind = none;
    // The instance of this node's key that a lane reached most recently. This member is set only in
    // the first instance of the key.
    std::uint32_t latest = none;
    std::uint32_t depends = none;
    std::uint32_t emitted = none;
    std::uint32_t kept = none;  // number of this node in the record of a repeated stretch
    instruction_kind kind = instruction_kind::load;
    std::uint8_t bytes = 0;
    bool ends_iteration = false;
    kernel::memory_space space = kernel::memory_space::local;
    // Whether this node is a later instance of its key, and is stored directly after the node that
    // a lane executes before it.
    bool later_in_order = false;
  };

  static instruction_kind kind_of(const kernel::access& a) {
    using kernel::access_kind;
    if (a.space == kernel::memory_space::shared) return instruction_kind::shared;
    if (a.kind == access_kind::store) return instruction_kind::store;
    if (a.kind == access_kind::atomic || a.kind == access_kind::reduce) {
      return instruction_kind::atomic;
    }
    return instruction_kind::load;
  }
  static std::uint64_t mix(std::uint64_t x) {
    x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
    return x ^ (x >> 31U);
  }
  // The key of a site in a loop. A site is an address. All sites have the same high bits, and their
  // highest bit is 0. The key also contains the loop key.
  std::uint64_t key_of(kernel::site_id site) const {
    return loop_key_ ^ static_cast<std::uint64_t>(site);
  }
  bool came(const node& n) const { return (n.lanes & lane_bit_) != 0; }

  // Whether node `n` has this key and is the next node that the lane reaches.
  bool is_next(const node& n, std::uint64_t key) const {
    return n.key == key && !came(n) &&
           (n.instance_before == none || came(nodes_[n.instance_before]));
  }
  // Whether the node `upcoming_` is a later instance of the key, and the next node that the lane
  // reaches.
  bool is_upcoming(std::uint64_t key) const {
    return upcoming_->later_in_order && is_next(*upcoming_, key);
  }
  // Returns the node of the instruction that the lane executes next. step() moves past that node.
  // Most lanes take the same path as the previous lane, and the next node is mostly also the next
  // node in memory, so the function rarely follows a link.
  [[gnu::always_inline]] node& reach(std::uint64_t key, instruction_kind kind, std::uint32_t bytes,
                                     kernel::memory_space space) {
    if ((upcoming_->key_in_order != key || came(*upcoming_)) && !is_upcoming(key)) [[unlikely]] {
      go_behind(search(key, kind, bytes, space) - 1);  // 0 - 1 is `none`
    }
    return *upcoming_;
  }
  [[gnu::always_inline]] void step() {
    ++cursor_;
    ++upcoming_;
    slot_ += warp_width_;
  }
  void go_behind(std::uint32_t id) {
    cursor_ = id;
    upcoming_ = &nodes_[id + 1];
    slot_ = &addresses_[(std::size_t{id + 1} << lane_bits_) + lane_];
  }
  std::uint32_t search(std::uint64_t key, instruction_kind kind, std::uint32_t bytes,
                       kernel::memory_space space) {
    const std::uint32_t follower = cursor_ == none ? head_ : nodes_[cursor_].next;
    if (follower != none && is_next(nodes_[follower], key)) return follower;
    return search_all(follower, key, kind, bytes, space);
  }
  std::uint32_t search_all(std::uint32_t follower, std::uint64_t key, instruction_kind kind,
                           std::uint32_t bytes, kernel::memory_space space);
  std::uint32_t find(std::uint64_t key) const;
  void insert_key(std::uint32_t id);
  void grow_table();

  // Counts an access to a region. Returns false if the device does not make the access.
  [[gnu::always_inline]] bool note_region(const kernel::access& a, instruction_kind kind,
                                          std::uint64_t& address) {
    bool up_to_date = true;
    if (!settings_->subscribed.empty()) [[unlikely]] {
      const subscriber_note noted = note_subscriber(a.region, a.element, a.primary, kind, address);
      if (!noted.makes_access) return false;
      address = noted.address;
      up_to_date = noted.up_to_date;
    }
    kernel::use_tracker* used = settings_->regions[a.region];
    if (used == nullptr) return true;
    if (kind != instruction_kind::load) {
      if (a.primary) used->wrote(a.element);
    } else if (up_to_date) {
      used->read(settings_->device, a.element);
    }
    return true;
  }
  struct subscriber_note {
    std::uint64_t address = 0;
    bool makes_access = true;
    bool up_to_date = true;
  };
  subscriber_note note_subscriber(std::uint32_t region, std::uint64_t element, bool primary,
                                  instruction_kind kind, std::uint64_t address) const;

  void flush();
  // The addresses of the lanes that take part in an access, packed without gaps.
  const std::uint64_t* packed_addresses(const node& n, std::uint32_t id);
  void emit_loads(std::uint32_t bytes, const std::uint64_t* addresses, std::uint32_t count,
                  warp_program& to);
  void emit_writes(std::uint32_t bytes, const std::uint64_t* addresses, std::uint32_t count,
                   warp_program& to);
  void emit_words(std::uint32_t bytes, const std::uint64_t* addresses, std::uint32_t count,
                  std::size_t first, warp_program& to) const;
  // Adds the lines that `count` lanes touch.
  void emit_lines(std::uint32_t bytes, std::uint32_t count, const std::uint64_t* addresses,
                  instruction& out);
  void emit_compute(const std::uint64_t* counts, std::uint32_t depends);
  void add_totals(const node& n, std::size_t lines) const;
  // Whether each address is `bytes` above the previous address.
  static bool in_steps(const std::uint64_t* addresses, std::uint32_t count, std::uint32_t bytes);
  static bool fills_lines(std::uint32_t bytes, const std::uint64_t* addresses, std::uint32_t count);
  static std::uint32_t bank_cycles(const node& n, const std::uint64_t* addresses);
  // Adds a barrier of the block, followed by the fence and the additions to counters that the
  // block's first warp makes. Without counters, adds only a mark in the program of the first warp.
  void announce(const std::vector<kernel::element_range>& ranges);
  void append(std::uint32_t warp, instruction_kind kind, std::uint32_t count,
              operation op = operation::fp32);
  // Logs the instruction that was last added to a program. If the instruction is an access, `n` is
  // its node.
  void log(std::uint32_t warp, const node& n, const std::uint64_t* addresses) const;

  // Adds the access at the cursor to the record of a repeated stretch.
  void note_repeated(kernel::memory_space space, instruction_kind kind);
  // Appends the instruction to the record of a repeated stretch.
  void keep_access(node& n, std::size_t instruction);
  // The number is odd, so its multiples differ from each other modulo 2^64.
  static constexpr std::uint64_t iteration_step = 0x9E3779B97F4A7C15U;
  static constexpr std::uint32_t max_lane_bits = 6;  // one bit for each lane of the widest warp
  // This bit is set in every key.
  static constexpr std::uint64_t key_mark = std::uint64_t{1} << 63U;
  // The round trips of an atomic that acquires and releases. In the first round trip the block's
  // stores reach the L2. The second round trip is the atomic's own.
  static constexpr std::uint32_t ordered_ways = 2;
  // Up to this number of nodes, a linear search is faster.
  static constexpr std::uint32_t small_segment = 12;

  const settings* settings_ = nullptr;
  std::vector<warp_program>* programs_ = nullptr;
  std::uint32_t lane_bits_ = 5;  // log2 of the warp width
  std::size_t warp_width_ = 32;
  std::uint32_t sector_shift_ = 5;
  std::uintptr_t address_base_ = 0;

  std::uint64_t work_ = 0;

  // The warp and the segment that are being recorded.
  std::uint32_t warp_ = none;
  std::uint32_t lane_ = 0;
  std::uint64_t lane_bit_ = 1;
  bool uniform_ = false;  // whether all lanes together make the segment's one access
  bool published_ = false;
  std::vector<kernel::element_range> written_at_end_;
  // The number of stores to a region that update the region's counters.
  std::uint32_t counted_stores_ = 0;
  std::uint32_t cursor_ = none;    // node that the lane executed last
  node* upcoming_ = nullptr;       // node after the cursor
  std::uint64_t* slot_ = nullptr;  // place for the lane's address at the node `upcoming_`
  std::uint32_t head_ = none;
  std::uint32_t first_id_ = 0;  // first id of the segment; lower ids belong to earlier segments
  std::uint64_t loop_key_ = key_mark;  // key of the current iteration of the innermost loop
  std::uint32_t count_ = 0;            // number of nodes
  // The list is always longer than count_, because there must be a node without a key after the
  // last node.
  std::vector<node> nodes_ = std::vector<node>(64);
  // Addresses with the shape [node][warp_width]. There is room for 64 nodes of the widest warp at
  // the start. The list never shrinks.
  std::vector<std::uint64_t> addresses_ = std::vector<std::uint64_t>(64U << max_lane_bits);
  std::array<std::uint64_t, 64> packed_{};
  // A table from keys to ids of first instances, used once a segment has many nodes. An element is
  // valid if its upper half is the segment's number.
  std::vector<std::uint64_t> table_ = std::vector<std::uint64_t>(1024, 0);
  std::uint32_t table_shift_ = 54;  // 64 - log2 of the table's size
  std::uint32_t segment_ = 1;
  repeated_programs repeated_;
  // The name of the repeated stretch that is being recorded or replayed.
  repeated_programs::name repeating_name_;
  repeated_program repeating_;
  bool keeps_ = false;  // whether the stretch is being recorded
  const repeated_program* known_ = nullptr;
  std::uint32_t repeating_warp_ = none;  // warp that is being recorded
  std::uint32_t repeating_from_ = 0;     // number of instructions before the stretch
  struct reached {
    std::uint32_t node = 0;
    std::uint32_t lane = 0;
  };
  std::vector<reached> reached_;                   // nodes that lanes of the segment reached
  std::vector<std::uint64_t> repeated_addresses_;  // in the order of repeated_program::order
  std::uint32_t logged_launch_ = none;
  std::uint64_t next_block_ = 0;  // number of the next block in the launch's log
};

// Watches the lanes of a warp.repeated whose instructions are known. A warp.repeated cannot contain
// another warp.repeated. Such code does not compile.
class recorder::known_lanes {
 public:
  template <class I>
  using index = kernel::dependent_index<I>;
  static constexpr bool active = true;

  known_lanes(recorder& of, const repeated_program& known, std::uint64_t* addresses)
      : recorder_(of),
        next_(known.order.data()),
        end_(next_ + known.order.size()),
        addresses_(addresses) {}

  [[gnu::always_inline]] std::uint32_t on_access(const kernel::access& a) {
    if (a.space == kernel::memory_space::shared) return kernel::no_instruction;
    if (next_ == end_) [[unlikely]]
      throw_differs();
    std::uint64_t address = reinterpret_cast<std::uintptr_t>(a.address) - recorder_.address_base_;
    if (a.space == kernel::memory_space::replicated) {
      recorder_.note_region(a, instruction_kind::load, address);
    }
    addresses_[*next_++] = address;
    return kernel::no_instruction;
  }
  bool all_reached() const { return next_ == end_; }
  [[noreturn]] static void throw_differs();

  bool stores_inline() const { return recorder_.stores_inline(); }
  bool unrolls() const { return recorder_.unrolls(); }
  void begin_segment() {}
  void begin_lane(std::uint32_t) {}
  void on_compute(const operations&, kernel::site_id) {}
  std::uint64_t enter_loop(kernel::site_id) { return 0; }
  void next_iteration() {}
  void leave_loop(std::uint64_t) {}
  void on_uniform() {}
  void on_acquire_release() {
    throw_differs();
  }  // The atomic sends updates, which must not be repeated.
  void on_barrier(bool) {}
  void on_shuffle(std::uint32_t, std::uint32_t, operation, std::uint32_t) {}
  void on_vote(std::uint32_t) {}
  void on_reduction(std::uint32_t, std::uint32_t, operation) {}

 private:
  recorder& recorder_;
  const std::uint32_t* next_;  // next element of `order`
  const std::uint32_t* end_;
  std::uint64_t* addresses_;
};

inline recorder::known_lanes recorder::watch_repeated() {
  return {*this, *known_, repeated_addresses_.data()};
}

// Runs block `index` on the CPU and records it.
using block_function =
    std::function<void(std::uint64_t index, recorder& record, kernel::block_memory& memory)>;

}  // namespace interlace::sim
