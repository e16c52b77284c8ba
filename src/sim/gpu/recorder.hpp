// Turns the lanes of a block, which run one after another, into the instructions of its warps.
//
// Accesses of different lanes are the same instruction when they stand at the same place in the
// source and their enclosing lane.range loops are in the same iterations. A lane that reaches an
// instruction nobody reached before inserts it behind the one it executed last, which keeps program
// order whatever path the first lane took.
//
// Of a warp.repeated, what one warp's lanes did is kept; of all others only addresses are noted.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "kernel/chunk_table.hpp"
#include "kernel/mapping.hpp"
#include "kernel/serial_block.hpp"
#include "kernel/use_tracker.hpp"
#include "sim/gpu/program.hpp"
#include "sim/gpu/repeated.hpp"
#include "sim/gpu/subscribed_pages.hpp"
#include "sim/trace/instruction.hpp"

namespace interlace::sim {

class recorder {
 public:
  template <class I>
  using index = kernel::dependent_index<I>;
  static constexpr bool active = true;

  struct settings {
    std::uint32_t warp_width = 32;
    std::uint32_t line_bytes = 128;
    std::uint32_t sector_bytes = 32;
    const std::byte* address_base = nullptr;  // device address 0
    bool stores_inline = false;
    bool watch_words = false;  // fills warp_program::words
    std::uint32_t device = 0;
    std::vector<kernel::use_tracker*> regions;  // by region id; null: not tracked
    // By region id, of those whose devices subscribe to pages; empty: there is none.
    std::vector<subscribed_pages*> subscribed;
    std::uint32_t slot_bits = 0;             // address >> slot_bits: whose memory
    kernel::trace_totals* totals = nullptr;  // where accesses are added up, if anywhere
    // Of a tracked launch; null: nobody asks what blocks announce.
    const std::vector<kernel::chunk>* chunks = nullptr;
    // 8 bytes a chunk, in the device's memory; null: stores update counters by themselves.
    const std::byte* counters = nullptr;
    trace::sink* log = nullptr;  // takes everything down, if anything does
    std::uint32_t launch = 0;    // its number there
  };

  // `programs` has one element a warp of the block; they are cleared.
  void begin_block(const settings& s, std::vector<warp_program>& programs);
  void end_block();
  // In place of a kernel, between begin_block and end_block: the next instruction of a warp. Its
  // addresses are device addresses.
  void add(std::uint32_t warp, const trace::instruction& i);

  bool stores_inline() const { return settings_->stores_inline; }
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
  // Inlined, for what a kernel says of an access is mostly known when it is compiled.
  [[gnu::always_inline]] std::uint32_t on_access(const kernel::access& a) {
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
      n.depends = before;  // what is stored was computed from what was loaded before it
    } else if (a.depends != none && a.depends >= first_id_) {
      n.depends = a.depends - first_id_;
    }
    *slot_ = address;
    step();
    if (keeps_) [[unlikely]]
      note_repeated(a, kind);
    return cursor_ + first_id_;
  }
  [[gnu::always_inline]] void on_compute(const operations& work, kernel::site_id site) {
    node& n = reach(key_of(site), instruction_kind::compute, 0, {});
    // Counts lie where an access has its addresses. The warp takes as long as its longest lane.
    std::uint64_t* most = slot_ - lane_;
    const std::array<std::uint32_t, operation_kinds> counts{work.fp32, work.fp64, work.integer,
                                                            work.special};
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
  bool begin_repeated(std::uint32_t warp, std::uint32_t lanes, const void* place,
                      std::uint32_t key);
  // Throws model_error if the lanes did what may not repeat.
  void end_repeated();
  class known_lanes;
  known_lanes watch_repeated();
  // Throws model_error if the lanes reached memory more or less often than those before.
  void end_repeated(const known_lanes& watched);
  void on_publish(std::uint32_t, std::uint64_t begin, std::uint64_t end) {
    if (settings_->chunks == nullptr) return;
    published_ = true;
    announce({{begin, end}});
  }
  // At the kernel's end: what the block is mapped to, unless it published.
  void finish(const std::vector<kernel::element_range>& mapped) {
    if (published_) return;
    if (settings_->counters != nullptr) {
      announce(mapped);
    } else {
      written_at_end_ = mapped;
    }
  }
  // What the block announces by no instruction, and the stores after which all of it is written.
  std::uint32_t take_written(std::vector<kernel::element_range>& to) {
    to.swap(written_at_end_);
    return std::exchange(counted_stores_, 0U);
  }

 private:
  struct node {
    // As `key`, if the node lies behind the one that is executed before it, and is the first
    // instance of its key; else 0, which is no key.
    std::uint64_t key_in_order = 0;
    std::uint64_t lanes = 0;    // that came here, one bit each
    std::uint64_t key = 0;      // place and iterations, the same for all instances
    std::uint32_t next = none;  // in program order
    // A lane that comes to a place twice outside of any range loop is at another instance of it.
    std::uint32_t instance_before = none;
    std::uint32_t instance_behind = none;
    std::uint32_t latest = none;  // of the first instance: the one that was reached last
    std::uint32_t depends = none;
    std::uint32_t emitted = none;
    std::uint32_t kept = none;  // its number in what is kept of a stretch that repeats
    instruction_kind kind = instruction_kind::load;
    std::uint8_t bytes = 0;
    kernel::memory_space space = kernel::memory_space::local;
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
  // Sites are addresses, of which the high bits are the same, the highest 0; those of loops are
  // mixed.
  std::uint64_t key_of(kernel::site_id site) const {
    return loop_key_ ^ static_cast<std::uint64_t>(site);
  }
  bool came(const node& n) const { return (n.lanes & lane_bit_) != 0; }

  // Whether it is the instruction of this key that the lane comes to next.
  bool is_next(const node& n, std::uint64_t key) const {
    return n.key == key && !came(n) &&
           (n.instance_before == none || came(nodes_[n.instance_before]));
  }
  // The instruction that the lane executes next; step() goes behind it. Lanes mostly follow the
  // lane before them, and what stands behind an instruction mostly also lies behind it: then
  // nothing has to be followed.
  [[gnu::always_inline]] node& reach(std::uint64_t key, instruction_kind kind, std::uint32_t bytes,
                                     kernel::memory_space space) {
    if (upcoming_->key_in_order != key || came(*upcoming_)) [[unlikely]] {
      go_behind(search(key, kind, bytes, space) - 1);  // 0 - 1 is none
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
                       kernel::memory_space space);
  std::uint32_t find(std::uint64_t key) const;
  void insert_key(std::uint32_t id);
  void grow_table();

  // Counts an access to a region; false if it is no access of the device after all.
  [[gnu::always_inline]] bool note_region(const kernel::access& a, instruction_kind kind,
                                          std::uint64_t& address) {
    bool up_to_date = true;
    if (!settings_->subscribed.empty() && !note_subscriber(a, kind, address, up_to_date)) {
      return false;
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
  bool note_subscriber(const kernel::access& a, instruction_kind kind, std::uint64_t& address,
                       bool& up_to_date);

  void flush();
  // The addresses of an access's lanes, one behind the other.
  const std::uint64_t* packed_addresses(const node& n, std::uint32_t id);
  void emit_loads(std::uint32_t bytes, const std::uint64_t* addresses, std::uint32_t count,
                  warp_program& to);
  void emit_writes(std::uint32_t bytes, const std::uint64_t* addresses, std::uint32_t count,
                   warp_program& to);
  void emit_words(std::uint32_t bytes, const std::uint64_t* addresses, std::uint32_t count,
                  std::size_t first, warp_program& to) const;
  // Of so many lanes.
  void emit_lines(std::uint32_t bytes, std::uint32_t count, const std::uint64_t* addresses,
                  instruction& out);
  void emit_compute(const std::uint64_t* counts, std::uint32_t depends);
  void add_totals(const node& n, std::size_t lines) const;
  // Whether each address lies so many bytes behind the one before.
  static bool in_steps(const std::uint64_t* addresses, std::uint32_t count, std::uint32_t bytes);
  static bool fills_lines(std::uint32_t bytes, const std::uint64_t* addresses, std::uint32_t count);
  static std::uint32_t bank_cycles(const node& n, const std::uint64_t* addresses);
  // A barrier of the block, and then its first warp's fence and additions to counters; without
  // counters none of that, but a place in the program of the first warp.
  void announce(const std::vector<kernel::element_range>& ranges);
  void append(std::uint32_t warp, instruction_kind kind, std::uint32_t count,
              operation op = operation::fp32);
  // Takes the instruction down that a program was given last; `n` is the node of an access.
  void log(std::uint32_t warp, const node& n, const std::uint64_t* addresses) const;

  // The access at the cursor is one in a stretch that may repeat.
  void note_repeated(const kernel::access& a, instruction_kind kind);
  // The instruction is behind the others of such a stretch.
  void keep_access(node& n, std::size_t instruction);
  static constexpr std::uint64_t iteration_step = 0x9E3779B97F4A7C15U;  // odd: no two are the same
  static constexpr std::uint32_t max_lane_bits = 6;                     // lanes have a bit each
  static constexpr std::uint64_t key_mark = std::uint64_t{1} << 63U;    // of every key
  // Of an atomic that acquires and releases: what its block stored is in the L2, then itself.
  static constexpr std::uint32_t ordered_ways = 2;
  static constexpr std::uint32_t small_segment = 12;  // nodes that are faster looked through

  const settings* settings_ = nullptr;
  std::vector<warp_program>* programs_ = nullptr;
  std::uint32_t lane_bits_ = 5;  // log2 of the warp width
  std::size_t warp_width_ = 32;
  std::uint32_t sector_shift_ = 5;
  std::uintptr_t address_base_ = 0;

  // The warp and segment being recorded.
  std::uint32_t warp_ = none;
  std::uint32_t lane_ = 0;
  std::uint64_t lane_bit_ = 1;
  bool uniform_ = false;  // its one access is of all lanes
  bool published_ = false;
  std::vector<kernel::element_range> written_at_end_;
  std::uint32_t counted_stores_ = 0;  // instructions that store to a region and update its counters
  std::uint32_t cursor_ = none;       // what the lane executed last
  node* upcoming_ = nullptr;          // the node behind that, and
  std::uint64_t* slot_ = nullptr;     // where the lane's address is for it
  std::uint32_t head_ = none;
  std::uint32_t first_id_ = 0;  // ids of a segment start here, so that older ones are told apart
  std::uint64_t loop_key_ = key_mark;                // of the innermost loop's iteration
  std::uint32_t count_ = 0;                          // of nodes
  std::vector<node> nodes_ = std::vector<node>(64);  // more than those; the one behind has no key
  // [node][warp_width], of as many nodes of the widest warp; as long as it ever was
  std::vector<std::uint64_t> addresses_ = std::vector<std::uint64_t>(64U << max_lane_bits);
  std::array<std::uint64_t, 64> packed_{};
  // Ids of first instances by key, once a segment is not small; an element counts if its upper half
  // is the segment's number.
  std::vector<std::uint64_t> table_ = std::vector<std::uint64_t>(1024, 0);
  std::uint32_t table_shift_ = 54;  // 64 - log2 of the table's size
  std::uint32_t segment_ = 1;
  repeated_programs repeated_;
  // Of the stretch that is being recorded or known.
  repeated_programs::name repeating_name_;
  repeated_program repeating_;
  bool keeps_ = false;  // it is recorded
  const repeated_program* known_ = nullptr;
  std::uint32_t repeating_warp_ = none;  // whose
  std::uint32_t repeating_from_ = 0;     // instructions before it
  struct reached {
    std::uint32_t node = 0;
    std::uint32_t lane = 0;
  };
  std::vector<reached> reached_;                   // in the segment
  std::vector<std::uint64_t> repeated_addresses_;  // by repeated_program::order
  std::uint32_t logged_launch_ = none;
  std::uint64_t next_block_ = 0;  // of it
};

// Sees the lanes of a warp.repeated whose instructions are known. There is none in another: that
// does not compile.
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
  void begin_segment() {}
  void begin_lane(std::uint32_t) {}
  void on_compute(const operations&, kernel::site_id) {}
  std::uint64_t enter_loop(kernel::site_id) { return 0; }
  void next_iteration() {}
  void leave_loop(std::uint64_t) {}
  void on_uniform() {}
  void on_barrier(bool) {}
  void on_shuffle(std::uint32_t, std::uint32_t, operation, std::uint32_t) {}

 private:
  recorder& recorder_;
  const std::uint32_t* next_;  // of the order
  const std::uint32_t* end_;
  std::uint64_t* addresses_;
};

inline recorder::known_lanes recorder::watch_repeated() {
  return {*this, *known_, repeated_addresses_.data()};
}

}  // namespace interlace::sim
