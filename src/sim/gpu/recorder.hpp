// Turns the lanes of a block, which run one after another, into the instructions of its warps.
//
// Accesses of different lanes are the same instruction when they stand at the same place in the
// source and their enclosing lane.range loops are in the same iterations. A lane that reaches an
// instruction nobody reached before inserts it behind the one it executed last, which keeps program
// order whatever path the first lane took.
//
// Of a warp.repeated, what one warp's lanes did is kept and given to all others.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "kernel/chunk_table.hpp"
#include "kernel/mapping.hpp"
#include "kernel/serial_block.hpp"
#include "kernel/use_tracker.hpp"
#include "sim/gpu/program.hpp"
#include "sim/remote/subscriptions.hpp"
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
    std::vector<subscriptions*> subscribed;
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
    cursor_ = none;
    loop_key_ = 0;
    loops_.clear();
  }
  // Inlined, for what a kernel says of an access is mostly known when it is compiled.
  [[gnu::always_inline]] std::uint32_t on_access(const kernel::access& a) {
    const instruction_kind kind = kind_of(a);
    auto address = reinterpret_cast<std::uintptr_t>(a.address);
    if (a.space != kernel::memory_space::shared) {
      address -= reinterpret_cast<std::uintptr_t>(settings_->address_base);
    }
    if (a.space == kernel::memory_space::replicated && !note_region(a, kind, address)) {
      return kernel::no_instruction;
    }
    // What is stored was computed from what was loaded before it.
    const std::uint32_t before = cursor_;
    const std::uint32_t id = reach(key_of(a.site), kind, a.bytes, a.space);
    node& n = nodes_[id];
    n.lanes |= lane_bit_;
    std::uint32_t depends = a.depends;
    if (a.kind == kernel::access_kind::store && before != none) depends = before + first_id_;
    if (depends != none && depends >= first_id_) n.depends = depends - first_id_;
    addresses_[(std::size_t{id} << lane_bits_) + lane_] = address;
    return id + first_id_;
  }
  [[gnu::always_inline]] void on_compute(const operations& work, kernel::site_id site) {
    const std::uint32_t id = reach(key_of(site), instruction_kind::compute, 0, {});
    node& n = nodes_[id];
    // Counts lie where an access has its addresses. The warp takes as long as its longest lane.
    std::uint64_t* most = &addresses_[std::size_t{id} << lane_bits_];
    const std::array<std::uint32_t, operation_kinds> counts{work.fp32, work.fp64, work.integer,
                                                            work.special};
    if (n.lanes == 0) std::fill_n(most, operation_kinds, 0);
    n.lanes |= lane_bit_;
    for (std::size_t k = 0; k < operation_kinds; ++k) {
      most[k] = std::max<std::uint64_t>(most[k], counts[k]);
    }
    if (settings_->totals != nullptr) [[unlikely]] {
      for (std::size_t k = 0; k < operation_kinds; ++k) {
        settings_->totals->operations[k] += counts[k];
      }
    }
  }
  void enter_loop(kernel::site_id site) {
    loops_.push_back(loop_key_);
    loop_key_ = mix(key_of(site) + 1);
  }
  void next_iteration() { loop_key_ += iteration_step; }
  void leave_loop() {
    loop_key_ = loops_.back();
    loops_.pop_back();
  }
  void on_uniform();
  void on_barrier(bool whole_block);
  void on_shuffle(std::uint32_t warp, std::uint32_t n, operation kind, std::uint32_t operations);
  bool begin_repeated(std::uint32_t warp, std::uint32_t lanes, const void* place,
                      std::uint32_t key);
  // Throws model_error if the lanes reached memory that is not shared.
  void end_repeated();
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
    std::uint64_t key = 0;             // place and iterations, the same for all instances
    std::uint64_t lanes = 0;           // that came here, one bit each
    std::uint32_t previous = nowhere;  // in program order
    std::uint32_t next = none;
    // A lane that comes to a place twice outside of any range loop is at another instance of it.
    std::uint32_t instance_before = none;
    std::uint32_t instance_behind = none;
    std::uint32_t latest = none;  // of the first instance: the one that was reached last
    std::uint32_t depends = none;
    std::uint32_t emitted = none;
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
  // Sites are addresses, of which the high bits are the same; those of loops are mixed.
  std::uint64_t key_of(kernel::site_id site) const {
    return loop_key_ ^ static_cast<std::uint64_t>(site);
  }
  bool came(const node& n) const { return (n.lanes & lane_bit_) != 0; }

  // Whether it is the instruction of this key that the lane comes to next.
  bool is_next(const node& n, std::uint64_t key) const {
    return n.key == key && !came(n) &&
           (n.instance_before == none || came(nodes_[n.instance_before]));
  }
  // The instruction that the lane executes next. Lanes mostly follow the lane before them, and what
  // stands behind an instruction mostly also lies behind it: then nothing has to be followed.
  [[gnu::always_inline]] std::uint32_t reach(std::uint64_t key, instruction_kind kind,
                                             std::uint32_t bytes, kernel::memory_space space) {
    std::uint32_t id = cursor_ + 1;  // none + 1 is 0
    const node& n = nodes_[id];
    if (n.previous != cursor_ || !is_next(n, key)) [[unlikely]] {
      id = search(key, kind, bytes, space);
    }
    cursor_ = id;
    return id;
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
  void emit_lines(const node& n, const std::uint64_t* addresses, instruction& out);
  void emit_compute(const std::uint64_t* counts, std::uint32_t depends);
  void add_totals(const node& n, std::size_t lines) const;
  static std::uint32_t bank_cycles(const node& n, const std::uint64_t* addresses);
  // A barrier of the block, and then its first warp's fence and additions to counters; without
  // counters none of that, but a place in the program of the first warp.
  void announce(const std::vector<kernel::element_range>& ranges);
  void append(std::uint32_t warp, instruction_kind kind, std::uint32_t count,
              operation op = operation::fp32);
  // Takes the instruction down that a program was given last; `n` is the node of an access.
  void log(std::uint32_t warp, const node& n, const std::uint64_t* addresses) const;

  // Of a warp.repeated: its place in the source, key, and how many lanes the warp has.
  using repeated_name = std::tuple<const void*, std::uint32_t, std::uint32_t>;

  static constexpr std::size_t most_repeated = 1U << 16U;  // instructions that are kept
  static constexpr std::uint64_t iteration_step = 0x9E3779B97F4A7C15U;  // odd: no two are the same
  static constexpr std::uint32_t nowhere = none - 1;                    // behind no instruction
  static constexpr std::uint32_t small_segment = 12;  // nodes that are faster looked through

  const settings* settings_ = nullptr;
  std::vector<warp_program>* programs_ = nullptr;
  std::uint32_t lane_bits_ = 5;  // log2 of the warp width
  std::uint32_t sector_shift_ = 5;

  // The warp and segment being recorded.
  std::uint32_t warp_ = none;
  std::uint32_t lane_ = 0;
  std::uint64_t lane_bit_ = 1;
  bool uniform_ = false;  // its one access is of all lanes
  bool published_ = false;
  std::vector<kernel::element_range> written_at_end_;
  std::uint32_t counted_stores_ = 0;  // instructions that store to a region and update its counters
  std::uint32_t cursor_ = none;       // what the lane executed last
  std::uint32_t head_ = none;
  std::uint32_t first_id_ = 0;  // ids of a segment start here, so that older ones are told apart
  std::uint64_t loop_key_ = 0;  // of the innermost loop's iteration
  std::vector<std::uint64_t> loops_;                 // those of the loops around it
  std::uint32_t count_ = 0;                          // of nodes
  std::vector<node> nodes_ = std::vector<node>(64);  // more than those; the one behind is `nowhere`
  std::vector<std::uint64_t> addresses_;             // [node][warp_width]; as long as it ever was
  std::array<std::uint64_t, 64> packed_{};
  // Ids of first instances by key, once a segment is not small; an element counts if its upper half
  // is the segment's number.
  std::vector<std::uint64_t> table_ = std::vector<std::uint64_t>(1024, 0);
  std::uint32_t table_shift_ = 54;  // 64 - log2 of the table's size
  std::uint32_t segment_ = 1;
  std::map<repeated_name, std::vector<instruction>> repeated_;  // depends: within each
  std::size_t repeated_size_ = 0;                               // instructions of all
  repeated_name repeating_;                                     // being recorded
  std::uint32_t repeating_warp_ = none;                         // whose; none: nothing is
  std::size_t repeating_from_ = 0;                              // instructions before it
  std::size_t repeating_lines_ = 0;                             // lines before it
  std::uint32_t logged_launch_ = none;
  std::uint64_t next_block_ = 0;  // of it
};

}  // namespace interlace::sim
