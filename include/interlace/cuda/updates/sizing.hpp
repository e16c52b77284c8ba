// The sizes of bins, windows and rounds for scattered updates of a table; pure arithmetic.
//
// A window is a part of the table that fits in a thread block's shared memory. A round takes a
// piece of the updates, in one or more passes. A pass takes the updates of a slice of the table:
// it appends them to bins, and then combines each window with its updates. Each window that a pass
// combines is read and written once, so the more updates it gets, the fewer bytes each update
// moves. The buffer bounds the updates of a pass. More passes over the same updates therefore move
// fewer bytes of the table, but produce each update more often.
//
// A slice with too many windows for one level of bins has two levels: a bin of the first level
// has several windows, and is split into bins of windows before these are combined.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <string>

#include "interlace/base/errors.hpp"

namespace interlace::cuda::updates {

// The options of a caller. If an option is zero, the library decides.
struct sizing_request {
  std::uint64_t elements = 0;        // the number of the table's elements
  std::uint32_t value_bytes = 8;     // the size of an element of the table
  std::uint32_t record_bytes = 8;    // the size of an update in a bin
  std::uint64_t updates = 0;         // the updates of a run; 0: four for each element
  std::uint32_t produced_bytes = 0;  // the memory that a producer reads for an update
  std::uint64_t cache_bytes = 0;     // the size of the GPU's L2; 0: bins in any case
  std::uint64_t buffer_bytes = 0;    // the most memory for bins; 0: a quarter of the table
  std::uint64_t window_bytes = 0;    // the bytes of a window; it holds a power of two of elements
  std::uint32_t most_bins = 1024;    // the most bins of a level
  bool one_pass = false;             // whether only one pass and one level are allowed
};

// Returns the part of a request that is the same for every caller.
template <class Value>
sizing_request request_of(std::uint64_t elements, std::uint64_t buffer_bytes,
                          std::uint64_t window_bytes) {
  sizing_request r;
  r.elements = elements;
  r.value_bytes = sizeof(Value);
  r.buffer_bytes = buffer_bytes;
  r.window_bytes = window_bytes;
  return r;
}

struct sizing {
  bool plain = false;             // plain atomics are faster than bins
  std::uint32_t window_log2 = 0;  // elements of a window
  std::uint32_t passes = 1;       // over the updates of a round
  std::uint32_t bins = 0;         // the bins of a slice
  std::uint32_t parts_log2 = 0;   // windows of a bin; 0: one level
  std::uint32_t group = 0;        // bins that are split at a time
  std::uint32_t room = 0;         // updates of a bin
  std::uint32_t part_room = 0;    // updates of a window's bin, with two levels
  std::uint64_t round_updates = 0;
  std::uint64_t buffer_bytes = 0;

  std::uint32_t bin_log2() const { return window_log2 + parts_log2; }
  std::uint64_t slice() const { return std::uint64_t{bins} << bin_log2(); }
  std::uint64_t windows() const { return std::uint64_t{passes} * bins << parts_log2; }
  // Windows whose bins exist at a time on the second level.
  std::uint32_t parts() const { return parts_log2 == 0 ? 0 : group << parts_log2; }
  std::uint64_t rounds(std::uint64_t updates) const {
    return (updates + round_updates - 1) / round_updates;
  }
};

// Bins pay for tables that are larger than this many L2s.
inline constexpr double least_caches = 1.5;
// The share of windows that are split at a time.
inline constexpr std::uint32_t groups = 16;
// The cost of one more pass and of one more level, for each update. An H200's memory moves this
// many bytes in the time that the pass or the level takes.
inline constexpr double pass_bytes = 4;
inline constexpr double level_bytes = 28;
inline constexpr std::uint32_t most_passes = 32;
inline constexpr std::uint32_t most_parts_log2 = 9;
inline constexpr std::uint64_t aligned_bytes = 256;

// The room of a bin that gets `mean` updates at random: three standard deviations more.
inline std::uint64_t room_for(std::uint64_t mean) {
  return mean + static_cast<std::uint64_t>(3 * std::sqrt(static_cast<double>(mean))) + 1;
}

// The memory of all bins, if each of the first level gets `mean` updates in a pass.
inline std::uint64_t bytes_of_bins(const sizing& s, std::uint64_t mean,
                                   std::uint32_t record_bytes) {
  const std::uint64_t first = s.bins * (room_for(mean) * record_bytes + 4);
  const std::uint64_t second =
      s.parts() * (room_for((mean >> s.parts_log2) + 1) * record_bytes + 4);
  return first + second + 4 * aligned_bytes;
}

// Sizes with the given number of passes; `round_updates` is 0 if they do not fit in the buffer.
inline sizing sizes_with(const sizing_request& r, std::uint32_t window_log2, std::uint32_t passes,
                         std::uint64_t budget, std::uint64_t updates) {
  sizing s;
  s.window_log2 = window_log2;
  const std::uint64_t windows = (r.elements + (std::uint64_t{1} << window_log2) - 1) >> window_log2;
  const std::uint64_t of_slice = (windows + passes - 1) / passes;
  if (of_slice > r.most_bins) {
    if (r.one_pass) return s;
    s.parts_log2 = static_cast<std::uint32_t>(std::bit_width(of_slice - 1) / 2);
    if (s.parts_log2 > most_parts_log2) s.parts_log2 = most_parts_log2;
  }
  const std::uint64_t bins = (of_slice + (std::uint64_t{1} << s.parts_log2) - 1) >> s.parts_log2;
  if (bins > r.most_bins) return s;
  s.bins = static_cast<std::uint32_t>(bins);
  s.passes =
      static_cast<std::uint32_t>((r.elements + s.slice() - 1) / s.slice());  // at most `passes`
  s.group = std::max(1U, s.bins / groups);
  // The largest mean that fits; a bin's place in the pool is a number of 32 bits.
  std::uint64_t low = 0;
  std::uint64_t high = (std::uint64_t{1} << 31U) / s.bins;
  while (low < high) {
    const std::uint64_t mean = (low + high + 1) / 2;
    if (bytes_of_bins(s, mean, r.record_bytes) <= budget)
      low = mean;
    else
      high = mean - 1;
  }
  const std::uint64_t most = low * s.bins * s.passes;
  if (most == 0) return s;
  const std::uint64_t rounds = (updates + most - 1) / most;
  s.round_updates = (updates + rounds - 1) / rounds;
  const std::uint64_t a_pass = s.passes * std::uint64_t{s.bins};
  const std::uint64_t mean = (s.round_updates + a_pass - 1) / a_pass;
  s.room = static_cast<std::uint32_t>(room_for(mean));
  if (s.parts_log2 != 0)
    s.part_room = static_cast<std::uint32_t>(room_for((mean >> s.parts_log2) + 1));
  s.buffer_bytes = bytes_of_bins(s, mean, r.record_bytes);
  return s;
}

// The bytes that an update moves, and what else takes as much time as moving bytes does.
inline double cost_of(const sizing_request& r, const sizing& s, std::uint64_t updates) {
  const double table = 2.0 * r.value_bytes * static_cast<double>(r.elements) *
                       static_cast<double>(s.rounds(updates)) / static_cast<double>(updates);
  return (r.produced_bytes + pass_bytes) * s.passes + table + (s.parts_log2 != 0 ? level_bytes : 0);
}

// Throws usage_error if the bins do not fit in the buffer.
inline sizing size_bins(const sizing_request& r) {
  if (r.elements == 0) throw usage_error("a table of updates needs at least one element");
  const std::uint64_t table_bytes = r.elements * r.value_bytes;
  if (r.cache_bytes != 0 &&
      static_cast<double>(table_bytes) <= least_caches * static_cast<double>(r.cache_bytes)) {
    sizing s;
    s.plain = true;
    return s;
  }
  const std::uint64_t budget = r.buffer_bytes != 0 ? r.buffer_bytes : table_bytes / 4;
  const std::uint64_t updates = r.updates != 0 ? r.updates : 4 * r.elements;
  const auto window_log2 = static_cast<std::uint32_t>(
      std::bit_width(std::max<std::uint64_t>(r.window_bytes / r.value_bytes, 1)) - 1);
  sizing best;
  double least = 0;
  for (std::uint32_t passes = 1; passes <= (r.one_pass ? 1 : most_passes); passes *= 2) {
    const sizing s = sizes_with(r, window_log2, passes, budget, updates);
    if (s.round_updates == 0) continue;
    const double cost = cost_of(r, s, updates);
    if (best.round_updates != 0 && cost >= least) continue;
    best = s;
    least = cost;
  }
  if (best.round_updates == 0)
    throw usage_error("updates of a table of " + std::to_string(table_bytes) + " bytes need more " +
                      "than " + std::to_string(budget) + " bytes for bins, with windows of " +
                      std::to_string(r.value_bytes << window_log2) +
                      " bytes; allow more, or take larger windows");
  return best;
}

}  // namespace interlace::cuda::updates
