// The contents of a trace of accesses. A trace has a program, which lists launches, copies and
// exchanges in the host's order. For each GPU it has the instructions of the warps of its kernels.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "interlace/base/limits.hpp"

namespace interlace::sim::trace {

inline constexpr std::uint32_t no_dependence = 0xffffffffU;
inline constexpr std::uint32_t max_lanes = 64;
inline constexpr std::uint32_t max_lane_bytes = 64;
inline constexpr std::uint64_t max_blocks = std::uint64_t{1} << 40U;  // the most blocks of a launch
inline constexpr std::uint32_t max_threads = 65536;                   // the most threads of a block

// The first three actions are accesses to global memory.
enum class action : std::uint8_t {
  load,
  store,
  atomic,
  release,  // a fence
  // computation; `count` is the number of operations of each lane, all of one kind
  // (interlace::operation)
  compute,
  shared,   // an access to shared memory; `count` is the number of cycles, including bank conflicts
  shuffle,  // register exchanges; `count` is their number
  // waits for all earlier instructions; a wait directly after an atomic means that the atomic
  // acquires and releases
  wait,
  barrier,  // waits like `wait`, and then for the other warps of the block
};
inline constexpr std::size_t actions = 9;
inline constexpr std::size_t access_kinds = 3;
constexpr bool is_access(action a) { return static_cast<std::size_t>(a) < access_kinds; }

enum class scope : std::uint8_t { none, block, device, system };

struct instruction {
  action kind = action::load;
  trace::scope scope = trace::scope::none;
  std::uint8_t bytes = 0;      // accesses only: bytes of each lane, 1 to max_lane_bytes
  std::uint8_t operation = 0;  // compute only
  std::uint32_t count = 0;     // compute, shared and shuffle only; `action` says what it counts
  // The instruction whose result this instruction needs, as a number within the warp.
  std::uint32_t depends = no_dependence;
  std::uint64_t lanes = 0;                   // one bit for each lane that takes part in an access
  const std::uint64_t* addresses = nullptr;  // the addresses of these lanes, in lane order
};

// Tasks are numbered from 0 after each join. An exchange is one task for each GPU, a join is not a
// task, and every other operation is one task. A task starts when all tasks in `after` have ended.
// The tasks in `after` must have lower numbers.
struct launch {
  std::uint32_t gpu = 0;
  std::uint64_t blocks = 0;
  std::uint32_t threads = 0;
  std::uint32_t shared_bytes = 0;
  std::string name;
  std::vector<std::uint32_t> after;
};
// Whether a trace may contain this launch.
inline bool possible(const launch& l) {
  return l.blocks <= max_blocks && l.threads <= max_threads && (l.blocks == 0 || l.threads != 0);
}
// The number of blocks of a grid. There is no value if the number is 0 or more than a trace may
// have.
inline std::optional<std::uint64_t> blocks_of(const std::array<std::uint64_t, 3>& grid) {
  std::uint64_t blocks = 1;
  for (const std::uint64_t extent : grid) {
    if (extent == 0 || extent > max_blocks / blocks) return std::nullopt;
    blocks *= extent;
  }
  return blocks;
}
inline constexpr std::uint32_t host = 0xff;  // stands for the host in place of a GPU's number
enum class copy_start : std::uint8_t { stream, by_host };
struct copy {
  std::uint32_t from = 0;  // a GPU's number, or host
  std::uint32_t to = 0;
  copy_start by = copy_start::stream;
  std::uint64_t from_address = 0;
  std::uint64_t to_address = 0;
  std::uint64_t bytes = 0;
  std::vector<std::uint32_t> after;
};
struct stretch {  // a range of a GPU's memory
  std::uint32_t gpu = 0;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
};
struct exchange {
  std::uint32_t payload = 0;  // bytes that travel with each flag
  bool instant = false;
  std::vector<std::vector<std::uint32_t>> after;  // for each GPU, the tasks that must end first
  // Memory that changes when the last GPU has arrived. Only instant exchanges use this list.
  std::vector<stretch> appears;
};
struct call {  // a library call
  std::uint32_t gpu = 0;
  std::string name;
  std::uint64_t bytes_read = 0;
  std::uint64_t bytes_written = 0;
  std::array<std::uint64_t, 4> operations{};  // the index is an interlace::operation
  std::vector<std::uint32_t> after;
};
struct join {};  // waits until all earlier tasks have ended
using step = std::variant<launch, copy, exchange, call, join>;

// If page_bytes is 0, the addresses [begin, end) belong to the memory of one GPU, `gpu`. Otherwise
// they are pages of page_bytes bytes, and each GPU in turn owns a page.
struct range {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint32_t gpu = 0;
  std::uint64_t page_bytes = 0;
};

struct header {
  std::uint32_t gpus = 1;
  std::uint32_t warp_width = 32;
  std::vector<range> ranges;
  std::string source;  // origin of the trace, as a text for people
};

struct totals {
  std::uint64_t launches = 0;
  std::uint64_t copies = 0;
  std::uint64_t exchanges = 0;
  std::uint64_t calls = 0;
  std::uint64_t blocks = 0;
  std::array<std::uint64_t, actions> instructions{};
  std::array<std::uint64_t, access_kinds> lanes{};
  std::array<std::uint64_t, access_kinds> bytes{};
  friend bool operator==(const totals&, const totals&) = default;

  void add(const step& s) {
    if (std::holds_alternative<launch>(s)) ++launches;
    if (std::holds_alternative<copy>(s)) ++copies;
    if (std::holds_alternative<exchange>(s)) ++exchanges;
    if (std::holds_alternative<call>(s)) ++calls;
  }
  void add(const instruction& i) {
    const auto k = static_cast<std::size_t>(i.kind);
    ++instructions[k];
    if (!is_access(i.kind)) return;
    const auto n = static_cast<std::uint64_t>(__builtin_popcountll(i.lanes));
    lanes[k] += n;
    bytes[k] += n * i.bytes;
  }
  std::uint64_t accesses() const { return instructions[0] + instructions[1] + instructions[2]; }
};

// Receives a trace. Launches are numbered from 0 over all GPUs. The kernels of each GPU come in
// launch order. The blocks of a kernel come in ascending order, and blocks that did nothing may be
// missing. The instructions of each warp come in program order. There is no order between GPUs, nor
// between GPUs and the program.
class sink {
 public:
  virtual ~sink() = default;
  virtual void program(const step& s) = 0;
  virtual void begin_kernel(std::uint32_t gpu, std::uint32_t launch) = 0;
  virtual void begin_block(std::uint32_t gpu, std::uint64_t index) = 0;
  virtual void add(std::uint32_t gpu, std::uint32_t warp, const instruction& i) = 0;
};

}  // namespace interlace::sim::trace
