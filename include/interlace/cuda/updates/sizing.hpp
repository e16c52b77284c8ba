// The sizes of bins, chunks and rounds for scattered updates of a table; pure arithmetic.
//
// Updates that lie in bins wait until their part of the table is due. The longer they wait, the
// more of them share a sector of the table, and the fewer bytes of the table each update moves.
// Therefore the bins form groups: each round appends to all bins and empties one group. A group is
// emptied when its updates have waited for `groups` rounds. The memory holds only half of the
// updates that it would hold if all bins were emptied together.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>

#include "interlace/base/errors.hpp"

namespace interlace::cuda::updates {

// The options of a caller. If an option is zero, the library decides.
struct sizing_request {
  std::uint64_t elements = 0;      // number of elements in the table
  std::uint32_t value_bytes = 8;   // size of an element of the table
  std::uint32_t record_bytes = 8;  // size of an update in a bin
  std::uint64_t cache_bytes = 0;   // size of the GPU's L2; 0: use bins in any case
  std::uint64_t buffer_bytes = 0;  // the most memory for bins and lists; 0: a quarter of the table
  std::uint64_t window_bytes = 0;  // part of the table that a bin covers; 0: the library decides
  std::uint32_t groups =
      0;  // a bin is emptied once in this number of rounds; 0: the library decides
  std::uint32_t tile_records = 4096;  // number of updates that a thread block appends at a time
  std::uint32_t most_bins = 4096;
};

struct sizing {
  bool plain = false;             // whether plain atomics are faster than bins
  std::uint32_t window_log2 = 0;  // log2 of the elements of a window
  std::uint32_t bins = 0;
  std::uint32_t groups = 0;
  std::uint32_t chunk_log2 = 10;    // log2 of the updates of a chunk, the unit of a bin's memory
  std::uint32_t chunks = 0;         // number of chunks in the pool
  std::uint32_t list_entries = 0;   // the most chunks of one bin
  std::uint64_t round_records = 0;  // updates that a round appends; a multiple of a tile
  std::uint64_t expected = 0;       // updates for which a bin gets room in the first round
  std::uint64_t buffer_bytes = 0;   // size of the pool and the lists together

  std::uint64_t pool_records() const { return std::uint64_t{chunks} << chunk_log2; }
};

// The bytes of lists for each bin and for each chunk. bins.cuh allocates exactly these.
inline constexpr std::uint64_t bytes_a_bin = 16;
inline constexpr std::uint64_t bytes_a_chunk = 20;  // a drain entry of 16 bytes, a free entry of 4
inline constexpr std::uint64_t bytes_in_all = 64;

// Bins are faster for tables that are larger than this many times the L2 and have at most this many
// bytes. Measured on an H200: 64 MiB and 64 GiB are faster by plain atomics, 128 MiB and 8 GiB by
// bins.
inline constexpr double least_caches = 1.5;
inline constexpr std::uint64_t most_table_bytes = std::uint64_t{8} << 30U;
inline constexpr std::uint64_t best_window_bytes = std::uint64_t{2} << 20U;
inline constexpr std::uint64_t long_round = std::uint64_t{1} << 23U;  // updates

// Throws usage_error if the bins do not fit in the buffer.
inline sizing size_bins(const sizing_request& r) {
  if (r.elements == 0) throw usage_error("a table of updates needs at least one element");
  sizing s;
  const std::uint64_t table_bytes = r.elements * r.value_bytes;
  if (r.cache_bytes != 0 &&
      (static_cast<double>(table_bytes) <= least_caches * static_cast<double>(r.cache_bytes) ||
       table_bytes > most_table_bytes)) {
    s.plain = true;
    return s;
  }
  const std::uint64_t budget = r.buffer_bytes != 0 ? r.buffer_bytes : table_bytes / 4;
  const auto bins_of = [&](std::uint32_t log2) {
    return (r.elements + (std::uint64_t{1} << log2) - 1) >> log2;
  };
  std::uint64_t window = r.window_bytes != 0 ? r.window_bytes : best_window_bytes;
  s.window_log2 = static_cast<std::uint32_t>(
      std::bit_width(std::max<std::uint64_t>(window / r.value_bytes, 1)) - 1);
  // Windows grow until a tile has enough updates for each bin. A window of a quarter of the L2 or
  // more grows further only if there would be too many bins.
  const std::uint64_t best_bins = r.window_bytes != 0 ? r.most_bins : r.most_bins / 4;
  while (bins_of(s.window_log2) > best_bins &&
         (bins_of(s.window_log2) > r.most_bins ||
          (std::uint64_t{r.value_bytes} << s.window_log2) < r.cache_bytes / 4))
    ++s.window_log2;
  s.bins = static_cast<std::uint32_t>(bins_of(s.window_log2));
  const std::uint64_t chunk = std::uint64_t{1} << s.chunk_log2;
  const auto too_small = [&] {
    return usage_error("updates of a table of " + std::to_string(table_bytes) + " bytes need " +
                       "more than " + std::to_string(budget) + " bytes for their " +
                       std::to_string(s.bins) + " bins; allow more, or take larger windows");
  };
  const std::uint64_t fixed = bytes_in_all + s.bins * bytes_a_bin;
  if (budget <= fixed) throw too_small();
  // A bin's list has room for four times its share of the pool, and for four chunks.
  const std::uint64_t a_chunk = (r.record_bytes << s.chunk_log2) + bytes_a_chunk + 16;
  const std::uint64_t lists = std::uint64_t{s.bins} * 4 * 4;
  if (budget <= fixed + lists + a_chunk) throw too_small();
  s.chunks = static_cast<std::uint32_t>(
      std::min<std::uint64_t>((budget - fixed - lists) / a_chunk, (std::uint64_t{1} << 22U) - 1));
  s.list_entries = 4 + 4 * s.chunks / s.bins;
  // Each bin has up to two chunks that are not full.
  const std::uint64_t held = std::uint64_t{s.bins} * 2;
  if (s.chunks < held + s.bins) throw too_small();
  const auto round_of = [&](std::uint32_t groups) {
    const double rounds = (groups + 3) / 2.0 + 1.0 / 16;
    const auto records =
        static_cast<std::uint64_t>(static_cast<double>((s.chunks - held) * chunk) / rounds);
    const std::uint64_t most = (std::uint64_t{1} << 31U) / groups;
    return std::min(records, most) / r.tile_records * r.tile_records;
  };
  s.groups = r.groups;
  if (s.groups == 0) {
    s.groups = std::min(8U, s.bins);
    while (s.groups < 16 && s.groups * 2 <= s.bins && round_of(s.groups * 2) >= long_round)
      s.groups *= 2;
  }
  s.groups = std::min(s.groups, s.bins);
  s.round_records = round_of(s.groups);
  if (s.round_records == 0) throw too_small();
  s.expected = s.round_records / s.bins + s.round_records / s.bins / 16 + chunk;
  s.buffer_bytes = fixed + std::uint64_t{s.bins} * s.list_entries * 4 +
                   s.chunks * ((std::uint64_t{r.record_bytes} << s.chunk_log2) + bytes_a_chunk);
  return s;
}

}  // namespace interlace::cuda::updates
