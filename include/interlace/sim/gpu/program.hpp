// A warp's work in the form that the timing model replays. It has the warp's instructions in
// program order, and for each instruction the lines that the warp's lanes touch together.
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
  atomic,   // a reduction in the L2 without a reply; a later instruction may wait for the atomic
  shared,   // `count` is the number of cycles of the access, with its bank conflicts
  compute,  // `count` is the number of operations of each lane
  shuffle,  // `count` is the number of register exchanges
  vote,     // `count` is 1
  // one instruction for a whole warp; `count` is the number of exchanges, and of operations, that
  // the instruction replaces
  reduce,
  publish,  // `count` is the number of ranges of `published`, beginning with number first_line
  wait,  // waits for all earlier instructions; `count` is the number of extra round trips to the L2
  barrier,  // waits like `wait`, and then for the other warps of the block
};

// A line that lanes of a warp touch together. The word holds the line's device address and the
// sectors that the lanes touch. Lines are aligned to at least 64 bytes, so the sectors fit in the
// low bits of the address.
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
    std::uint32_t first_written;  // used by stores and atomics
    std::uint32_t count = 0;      // used by all other kinds; each kind gives it a meaning
  };
  std::uint32_t depends = none;  // earlier instruction whose result this instruction needs

  // The state of the replay.
  std::uint16_t next_line = 0;  // first line that has not been issued
  std::uint16_t pending = 0;    // number of lines in flight
  bool issued : 1 = false;
  bool uniform : 1 = false;  // a load of one element for all lanes
  bool counted : 1 = false;  // a store that updates the counters of chunks
  // Whether these operations end an iteration of a loop in which an iteration needs the result of
  // the previous iteration.
  bool ends_iteration : 1 = false;
  std::uint32_t looked_up : 14 = 0;  // number of lines whose pages were looked up in a TLB
  // The number of lines that wait for a translation. The number fits in 14 bits, because each lane
  // of a warp touches at most two lines.
  std::uint32_t untranslated : 14 = 0;
  picoseconds ready = 0;
  // The first instruction that depends on this instruction. next_dependent links the other
  // dependent instructions.
  std::uint32_t dependents = none;
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
  // For each element of `lines`, the 4-byte words that lanes touch. The list is filled only if
  // remote loads are watched.
  std::vector<std::uint32_t> words;
  // For the first line of each load, the time when the load first requested a line. The list is
  // filled only if remote loads are watched.
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
