// Turns the lanes of a block, which run one after another, into the instructions of its warps.
//
// Accesses of different lanes are the same instruction when they stand at the same place in the
// source and their enclosing lane.range loops are in the same iterations. A lane that reaches an
// instruction nobody reached before inserts it behind the one it executed last, which keeps program
// order whatever path the first lane took.
#pragma once

#include <cstdint>
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
  void begin_lane(std::uint32_t lane);
  std::uint32_t on_access(const kernel::access& a);
  void on_compute(const operations& work, kernel::site_id site);
  void enter_loop(kernel::site_id site);
  void next_iteration();
  void leave_loop() { loops_.pop_back(); }
  void on_uniform();
  void on_barrier(bool whole_block);
  void on_shuffle(std::uint32_t warp, std::uint32_t n, operation kind, std::uint32_t operations);
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
    std::uint64_t key = 0;
    std::uint32_t next = none;
    instruction_kind kind = instruction_kind::load;
    std::uint8_t bytes = 0;
    kernel::memory_space space = kernel::memory_space::local;
    std::uint32_t last_lane = none;
    std::uint32_t depends = none;
    std::uint32_t count = 0;  // lanes with an address
    std::uint32_t emitted = none;
    std::uint64_t lanes = 0;  // those, one bit each
  };
  struct loop {
    std::uint64_t base = 0;
    std::uint64_t key = 0;
    std::uint32_t iteration = 0;
  };

  static std::uint64_t mix(std::uint64_t x) {
    x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
    return x ^ (x >> 31U);
  }
  std::uint64_t loop_key() const { return loops_.empty() ? 0 : loops_.back().key; }
  // Multiplications spread both over the high bits, which the table uses.
  std::uint64_t key_of(kernel::site_id site) const {
    const auto place = static_cast<std::uint64_t>(site) * 0x9E3779B97F4A7C15U;
    return (loop_key() ^ place) * 0xbf58476d1ce4e5b9U;
  }
  std::uint32_t reach(std::uint64_t key, instruction_kind kind);
  std::uint32_t find(std::uint64_t key) const;
  void insert_key(std::uint32_t id);
  void grow_table();
  void flush();
  void emit_lines(const node& n, const std::uint64_t* addresses, instruction& out);
  void emit_compute(const std::uint64_t* counts, instruction out);
  void add_totals(const node& n) const;
  std::uint32_t bank_cycles(const node& n, const std::uint64_t* addresses) const;
  // A barrier of the block, and then its first warp's fence and additions to counters; without
  // counters none of that, but a place in the program of the first warp.
  void announce(const std::vector<kernel::element_range>& ranges);
  void append(std::uint32_t warp, instruction_kind kind, std::uint32_t count,
              operation op = operation::fp32);
  // Takes the instruction down that a program was given last; `n` is the node of an access.
  void log(std::uint32_t warp, const node& n, const std::uint64_t* addresses) const;

  const settings* settings_ = nullptr;
  std::vector<warp_program>* programs_ = nullptr;

  // The warp and segment being recorded.
  std::uint32_t warp_ = none;
  std::uint32_t lane_ = 0;
  bool uniform_ = false;  // its one access is of all lanes
  bool published_ = false;
  std::vector<kernel::element_range> written_at_end_;
  std::uint32_t counted_stores_ = 0;  // instructions that store to a region and update its counters
  std::uint32_t cursor_ = none;
  std::uint32_t head_ = none;
  std::uint32_t first_id_ = 0;  // ids of a segment start here, so that older ones are told apart
  std::vector<node> nodes_;
  std::vector<std::uint64_t> addresses_;  // [node][warp_width]
  std::vector<loop> loops_;
  std::vector<std::uint64_t> lines_;  // of the instruction being emitted
  std::vector<written_bytes> written_;
  std::vector<std::uint32_t> table_ = std::vector<std::uint32_t>(1024, none);
  std::uint32_t table_shift_ = 54;     // 64 - log2 of the table's size
  std::vector<std::uint64_t> pieces_;  // of accesses that are not aligned
  std::uint32_t logged_launch_ = none;
  std::uint64_t next_block_ = 0;  // of it
};

}  // namespace interlace::sim
