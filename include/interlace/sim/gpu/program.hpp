// A warp's work in the form that the timing model replays: instructions in program order, each with
// the lines that its lanes touch together.
#pragma once

#include <cstdint>
#include <memory_resource>
#include <vector>

#include "interlace/kernel.hpp"
#include "interlace/kernel/mapping.hpp"
#include "interlace/sim/engine/picoseconds.hpp"
#include "interlace/sim/fabric/byte_mask.hpp"

namespace interlace::sim {

inline constexpr std::uint32_t none = 0xffffffffU;

enum class instruction_kind : std::uint8_t {
  load,
  store,
  atomic,   // a reduction in the L2 without a reply; a later instruction may wait for it
  shared,   // count: cycles by bank conflicts
  compute,  // count: operations of each lane
  shuffle,  // count: register exchanges
  vote,     // count: 1
  reduce,   // one instruction for a whole warp; count: exchanges, and operations, that it replaces
  publish,  // count: ranges of `published`, from number first_line on
  wait,     // waits for all earlier instructions; count: additional trips to the L2 and back
  barrier,  // waits like `wait`, then for the other warps of the block
};

// A line that lanes of a warp touch together: its device address and the sectors that the lanes
// touch. Lines are aligned to at least 64 bytes, so the sectors fit in the low bits.
class line_access {
 public:
  line_access(std::uint64_t line, std::uint8_t sectors) : packed_(line | sectors) {}
  std::uint64_t line() const { return packed_ & ~sector_bits; }
  std::uint8_t sectors() const { return static_cast<std::uint8_t>(packed_ & sector_bits); }
  std::uint64_t packed() const { return packed_; }
  static line_access unpack(std::uint64_t packed) { return {packed, 0}; }

 private:
  static constexpr std::uint64_t sector_bits = 0x3f;
  std::uint64_t packed_;
};

// The bytes that stores and atomics write to one line.
struct written_bytes {
  byte_mask bytes;
  std::uint32_t lanes = 0;
  std::uint32_t element_bytes = 0;
};

// NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): one name of the union is enough
struct instruction {
  instruction_kind kind = instruction_kind::load;
  operation op = operation::fp32;
  std::uint16_t line_count = 0;
  std::uint32_t first_line = 0;
  union {
    std::uint32_t first_written;  // only of stores and atomics
    std::uint32_t count = 0;      // only of other kinds; the meaning depends on the kind
  };
  std::uint32_t depends = none;  // the earlier instruction whose result this one needs

  // State of the replay.
  std::uint16_t next_line = 0;  // first line that is not issued yet
  std::uint16_t pending = 0;    // lines in flight
  bool issued : 1 = false;
  bool uniform : 1 = false;          // a load of one element for all lanes
  bool counted : 1 = false;          // a store that updates counters of chunks
  bool ends_iteration : 1 = false;   // operations at the end of an iteration that carries a result
  std::uint32_t looked_up : 14 = 0;  // lines whose pages were looked up in a TLB
  // The lines that wait for a translation. Each lane of a warp touches at most two lines.
  std::uint32_t untranslated : 14 = 0;
  picoseconds ready = 0;
  std::uint32_t dependents = none;  // the first element of a list, which next_dependent links
  std::uint32_t next_dependent = none;
};
static_assert(sizeof(instruction) == 40, "recorded programs take most of a run's memory");

struct warp_program {
  warp_program() = default;
  explicit warp_program(std::pmr::memory_resource& memory)
      : instructions(&memory), lines(&memory), written(&memory) {}

  std::pmr::vector<instruction> instructions;
  std::pmr::vector<line_access> lines;
  std::pmr::vector<written_bytes> written;
  // For each element of `lines`, the 4-byte words that lanes touch. Filled only if remote loads are
  // watched.
  std::vector<std::uint32_t> words;
  // For the first line of each load, the time when the load first requested a line. Filled only if
  // remote loads are watched.
  std::vector<picoseconds> began;
  std::vector<kernel::element_range> published;

  void clear() {
    published.clear();
    instructions.clear();
    lines.clear();
    written.clear();
    words.clear();
    began.clear();
  }
};

}  // namespace interlace::sim
