// Counts the copies that were taken over and the copies that were passed through. The counters are
// in a file that all processes of a program map, so they survive no matter how a process ends.
// `interlace run` makes and reads the file.
//
//   offset 0      counters_header
//   offset 4096   names, a line each, in groups with an empty line between them: the
//                 directions, the outcomes of copies that were taken over, all other outcomes,
//                 the kinds of host memory, the functions of the driver
//   offset 8192   slots, each of slot_bytes: one for each process image that copied on GPUs; if
//                 there are too many images, the last of them share a slot
//   then          call sites, each of site_bytes, followed by calls, each of call_bytes; the
//                 header has the number of sites and the number of calls, which are 0 if
//                 `interlace run` made no room for them
//
// All numbers are little-endian. Counts only grow.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace interlace::preload {

enum class copy_direction : std::uint8_t { unknown, host_to_gpu, gpu_to_host, gpu_to_gpu };
inline constexpr std::size_t direction_count = 4;

// The outcome of a copy. In all cases except the first two, the program made the copy itself.
enum class outcome : std::uint8_t {
  taken_over,
  one_kernel,
  small,
  synchronous,
  capturing,
  not_started,
  one_path,
  same_gpu,
  pageable,
  managed,
  mixed,
  unreachable,
  no_staging,
  other_context,
  unknown_memory,
  switched_off,
  driver_as_fast,
  several_dimensions,
  read_early,
  overlap_wanted,
  refused,
  overlapping,
  no_kernel,
  failed,
};
inline constexpr std::size_t taken_over_count = 2;
inline constexpr std::size_t outcome_count = static_cast<std::size_t>(outcome::failed) + 1;

enum class engine_state : std::uint64_t { none, starting, ready, useless };

struct counters_slot {
  struct tally {
    std::atomic<std::uint64_t> copies{0};
    std::atomic<std::uint64_t> bytes{0};
  };
  std::atomic<std::uint64_t> process{0};     // id of the process
  std::atomic<std::uint64_t> engine{0};      // an engine_state
  std::atomic<std::uint64_t> started_ns{0};  // time that the engine took to start
  // The predicted times of the copies that were taken over: `predicted_ns` over several paths, and
  // `direct_ns` as plain copies.
  std::array<std::atomic<std::uint64_t>, direction_count> predicted_ns{};
  std::array<std::atomic<std::uint64_t>, direction_count> direct_ns{};
  std::array<std::array<tally, outcome_count>, direction_count> tallies{};
  std::atomic<std::uint64_t> batches{0};  // number of batches that were taken over
  std::array<char, 64> name{};            // name of the program
  std::array<char, 512> note{};           // first text that the process reported, in UTF-8
};

inline constexpr std::size_t slot_bytes = 4096;
inline constexpr std::size_t names_offset = 4096;
inline constexpr std::size_t slots_offset = 8192;
static_assert(sizeof(counters_slot) <= slot_bytes);

enum class host_memory : std::uint8_t { none, locked, pageable, managed };
inline constexpr std::size_t host_memory_count = 4;

inline constexpr std::size_t site_module_bytes = 64;
inline constexpr std::size_t site_symbol_bytes = 128;

// A place in the program that copies. The counts are estimates for all of its calls, computed from
// the calls that were sampled.
struct call_site {
  struct tally {
    std::atomic<std::uint64_t> copies{0};
    std::atomic<std::uint64_t> bytes{0};
    std::atomic<std::uint64_t> host_ns{0};  // time that the host spent in the driver's function
  };
  std::atomic<std::uint32_t> named{0};  // 1 if the texts are complete
  std::uint32_t slot = 0;
  std::uint32_t function = 0;             // an entry, as a number
  std::atomic<std::uint32_t> sampled{0};  // number of sampled calls
  std::array<std::array<tally, host_memory_count>, direction_count> tallies{};
  std::atomic<std::uint64_t> taken_over{0};  // number of bytes
  // The numbers of copies, by the logarithm of their size. The first element counts copies of fewer
  // than 2 bytes. The last element counts all copies that are too large for the other elements.
  std::array<std::atomic<std::uint64_t>, 32> sizes{};
  // library whose code calls the driver or the CUDA runtime
  std::array<char, site_module_bytes> module{};
  std::array<char, site_symbol_bytes> symbol{};
  std::array<char, site_module_bytes> outer_module{};  // library that calls that library
  std::array<char, site_symbol_bytes> outer_symbol{};
};
inline constexpr std::size_t site_bytes = 1048;
static_assert(sizeof(call_site) == site_bytes);

// One call, for a timeline.
struct seen_call {
  std::uint64_t begin_ns = 0;  // start of the call, by the monotonic clock
  std::uint64_t took_ns = 0;
  std::uint64_t bytes = 0;
  std::uint32_t pieces = 0;
  std::uint32_t slot = 0;
  std::uint32_t thread = 0;
  std::uint8_t function = 0;   // an entry, as a number
  std::uint8_t direction = 0;  // a copy_direction, as a number
  std::uint8_t what = 0;       // an outcome, as a number
  std::atomic<std::uint8_t> complete{0};
};
inline constexpr std::size_t call_bytes = 40;
static_assert(sizeof(seen_call) == call_bytes);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

struct counters_header {
  std::array<char, 8> magic{};           // holds counters_magic, which `interlace run` writes
  std::atomic<std::uint64_t> slots{0};   // written by `interlace run`
  std::atomic<std::uint64_t> loaded{0};  // number of process images that loaded this library
  // The number of process images that looked up driver functions.
  std::atomic<std::uint64_t> saw_driver{0};
  std::atomic<std::uint64_t> claimed{0};  // number of slots that process images asked for
  std::atomic<std::uint64_t> sites{0};    // written by `interlace run`
  // The number of claimed sites; can exceed the number of sites.
  std::atomic<std::uint64_t> claimed_sites{0};
  std::atomic<std::uint64_t> calls{0};  // written by `interlace run`
  // The number of claimed calls; can exceed the number of calls.
  std::atomic<std::uint64_t> claimed_calls{0};
};
inline constexpr std::array<char, 8> counters_magic{'I', 'L', 'P', 'R', 'E', 'L', 'D', '2'};

// Maps the file if the file exists.
void counters_open(const char* file);
// The slot of this process. The first call claims the slot. Without a file, the slot is in memory
// of the process.
counters_slot& counters();
void counters_seen_driver();
// Makes the next count claim a new slot. The child of a fork must call this function.
void counters_forked();

// The outcome and the direction that this thread counted last.
struct last_count {
  outcome what = outcome::failed;
  copy_direction moves = copy_direction::unknown;
};
inline constinit thread_local last_count counted_last;

inline void count(copy_direction moves, outcome what, std::uint64_t bytes,
                  std::uint64_t copies = 1) {
  auto& tally = counters().tallies[static_cast<std::size_t>(moves)][static_cast<std::size_t>(what)];
  tally.copies.fetch_add(copies, std::memory_order_relaxed);
  tally.bytes.fetch_add(bytes, std::memory_order_relaxed);
  counted_last = {what, moves};
}

// The call sites for which `interlace run` made room. The list is empty if it made no room.
std::span<call_site> call_sites();
// The calls for which `interlace run` made room. The list is empty if it made no room.
std::span<seen_call> seen_calls();
// Claims a call site and returns its number. If no room is left, the returned number is not below
// the number of sites.
std::uint64_t claim_site();
// Claims a call and returns its number. If no room is left, the returned number is not below the
// number of calls.
std::uint64_t claim_call();
// The number of this process's slot.
std::uint32_t counters_slot_number();

// Keeps the first text that the process reports about the copy engine, such as why the engine
// cannot start. Later texts are dropped.
void counters_note(const char* sentence);

}  // namespace interlace::preload
