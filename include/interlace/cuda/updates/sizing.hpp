// The sizes of bins, windows and rounds for scattered updates of a table. The computation is pure
// arithmetic.
//
// A window is a part of the table that fits in a thread block's shared memory. The run takes the
// updates in rounds. A round has one or more passes over its updates. Each pass serves one slice of
// the table: it appends the updates of this slice to bins, and then combines each window of the
// slice with the window's updates. A pass reads and writes each window once. The more updates a
// window gets, the fewer bytes are therefore moved for each update. The buffer bounds the number of
// updates that a pass can hold. With more passes, a round has more updates, and fewer bytes of the
// table are moved. But each pass produces the updates again.
//
// If a slice has too many windows for one level of bins, it has two levels. A bin of the first
// level has the updates of several windows. It is split into one bin for each window before the
// windows are combined.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <string>

#include "interlace/base/errors.hpp"

namespace interlace::cuda::updates {

// The options of a caller. If an option is 0, the library chooses the value.
struct sizing_request {
  std::uint64_t elements = 0;        // number of elements of the table
  std::uint32_t value_bytes = 8;     // size of an element of the table
  std::uint32_t record_bytes = 8;    // size of an update in a bin
  std::uint64_t updates = 0;         // number of updates of a run; 0 means four for each element
  std::uint32_t produced_bytes = 0;  // bytes of memory that a producer reads for an update
  std::uint64_t cache_bytes = 0;     // size of the GPU's L2; 0 means that bins are always used
  std::uint64_t buffer_bytes = 0;    // most memory for bins; 0 means a quarter of the table
  std::uint64_t window_bytes = 0;    // bytes of a window, which holds a power of two of elements
  std::uint32_t most_bins = 1024;    // most bins of a level
  bool one_pass = false;             // whether only one pass and one level are allowed
};

// Returns the members of a request that are the same for every caller.
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
  bool plain = false;             // whether plain atomics are faster than bins
  std::uint32_t window_log2 = 0;  // log2 of the number of elements of a window
  std::uint32_t passes = 1;       // number of passes over the updates of a round
  std::uint32_t bins = 0;         // number of bins of a slice
  std::uint32_t parts_log2 = 0;   // log2 of the number of windows of a bin; 0 means one level
  std::uint32_t group = 0;        // number of bins that are split at a time
  std::uint32_t room = 0;         // number of updates for which a bin has room
  // With two levels: number of updates for which a window's bin has room.
  std::uint32_t part_room = 0;
  std::uint64_t round_updates = 0;
  std::uint64_t buffer_bytes = 0;

  std::uint32_t bin_log2() const { return window_log2 + parts_log2; }
  std::uint64_t slice() const { return std::uint64_t{bins} << bin_log2(); }
  std::uint64_t windows() const { return std::uint64_t{passes} * bins << parts_log2; }
  // The number of windows whose bins exist at the same time on the second level.
  std::uint32_t parts() const { return parts_log2 == 0 ? 0 : group << parts_log2; }
  std::uint64_t rounds(std::uint64_t updates) const {
    return (updates + round_updates - 1) / round_updates;
  }
};

// Bins are worth their cost for tables that are larger than this many L2s.
inline constexpr double least_caches = 1.5;
// The bins of a slice form this many groups. One group is split at a time.
inline constexpr std::uint32_t groups = 16;
// The cost of one more pass (`pass_bytes`) and of one more level (`level_bytes`), for each update.
// A cost is the number of bytes that the memory of an H200 moves in the same time.
inline constexpr double pass_bytes = 4;
inline constexpr double level_bytes = 28;
inline constexpr std::uint32_t most_passes = 32;
inline constexpr std::uint32_t most_parts_log2 = 9;
inline constexpr std::uint64_t aligned_bytes = 256;

// The room of a bin that gets `mean` updates on average, if updates are random: the mean plus three
// standard deviations.
inline std::uint64_t room_for(std::uint64_t mean) {
  return mean + static_cast<std::uint64_t>(3 * std::sqrt(static_cast<double>(mean))) + 1;
}

// The memory of all bins, if each bin of the first level gets `mean` updates in a pass.
inline std::uint64_t bytes_of_bins(const sizing& s, std::uint64_t mean,
                                   std::uint32_t record_bytes) {
  const std::uint64_t first = s.bins * (room_for(mean) * record_bytes + 4);
  const std::uint64_t second =
      s.parts() * (room_for((mean >> s.parts_log2) + 1) * record_bytes + 4);
  return first + second + 4 * aligned_bytes;
}

// The sizes for the given number of passes. `round_updates` is 0 if the bins do not fit in the
// buffer.
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
  // Slices consist of whole bins, so fewer passes than `passes` can suffice.
  s.passes = static_cast<std::uint32_t>((r.elements + s.slice() - 1) / s.slice());
  s.group = std::max(1U, s.bins / groups);
  // Searches for the largest mean that fits. A bin's place in the pool must be a number of 32 bits.
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

// The cost of an update in bytes. It is the number of bytes that are moved for an update, plus the
// number of bytes that memory could move in the time that all other work for an update takes.
inline double cost_of(const sizing_request& r, const sizing& s, std::uint64_t updates) {
  const double table = 2.0 * r.value_bytes * static_cast<double>(r.elements) *
                       static_cast<double>(s.rounds(updates)) / static_cast<double>(updates);
  return (r.produced_bytes + pass_bytes) * s.passes + table + (s.parts_log2 != 0 ? level_bytes : 0);
}

// Chooses the sizes with the least cost. Throws usage_error if no bins fit in the buffer.
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
