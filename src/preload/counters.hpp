// How many copies were taken over and how many were passed through. The counters are in a file that
// all processes of a program map, so they survive however a process ends. `interlace run` makes the
// file and reads it.
//
//   offset 0      counters_header
//   offset 4096   names, a line each: the directions, an empty line, the outcomes
//   offset 8192   slots, each of slot_bytes: one for each process image that copied on GPUs; if
//                 there are too many images, the last of them share a slot
//
// All numbers are little-endian. Counts only grow.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace interlace::preload {

enum class copy_direction : std::uint8_t { unknown, host_to_gpu, gpu_to_host, gpu_to_gpu };
inline constexpr std::size_t direction_count = 4;

// The outcome of a copy. The program made the copy itself in all cases but the first.
enum class outcome : std::uint8_t {
  taken_over,
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
  failed,
};
inline constexpr std::size_t outcome_count = static_cast<std::size_t>(outcome::failed) + 1;

enum class engine_state : std::uint64_t { none, starting, ready, useless };

struct counters_slot {
  struct tally {
    std::atomic<std::uint64_t> copies{0};
    std::atomic<std::uint64_t> bytes{0};
  };
  std::atomic<std::uint64_t> process{0};     // its id
  std::atomic<std::uint64_t> engine{0};      // engine_state
  std::atomic<std::uint64_t> started_ns{0};  // how long the engine took to start
  // Predicted times of the copies that were taken over: over several paths, and as plain copies.
  std::array<std::atomic<std::uint64_t>, direction_count> predicted_ns{};
  std::array<std::atomic<std::uint64_t>, direction_count> direct_ns{};
  std::array<std::array<tally, outcome_count>, direction_count> tallies{};
  std::array<char, 64> name{};   // of the program
  std::array<char, 512> note{};  // the first sentence of the engine; UTF-8
};

inline constexpr std::size_t slot_bytes = 4096;
inline constexpr std::size_t names_offset = 4096;
inline constexpr std::size_t slots_offset = 8192;
static_assert(sizeof(counters_slot) <= slot_bytes);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

struct counters_header {
  std::array<char, 8> magic{};               // counters_magic, written by `interlace run`
  std::atomic<std::uint64_t> slots{0};       // written by `interlace run`
  std::atomic<std::uint64_t> loaded{0};      // process images that loaded this library
  std::atomic<std::uint64_t> saw_driver{0};  // process images that looked up driver functions
  std::atomic<std::uint64_t> claimed{0};     // slots that process images asked for
};
inline constexpr std::array<char, 8> counters_magic{'I', 'L', 'P', 'R', 'E', 'L', 'D', '1'};

// Maps the file, if it exists.
void counters_open(const char* file);
// The slot of this process. The first call claims it. Without a file, the slot is memory of the
// process.
counters_slot& counters();
void counters_seen_driver();
// To be called in the child of a fork, which must claim a slot of its own.
void counters_forked();

inline void count(copy_direction moves, outcome what, std::uint64_t bytes) {
  auto& tally = counters().tallies[static_cast<std::size_t>(moves)][static_cast<std::size_t>(what)];
  tally.copies.fetch_add(1, std::memory_order_relaxed);
  tally.bytes.fetch_add(bytes, std::memory_order_relaxed);
}

// Keeps the first sentence of a process; later ones are dropped.
void counters_note(const char* sentence);

}  // namespace interlace::preload
