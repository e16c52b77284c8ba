// Chunks: the units in which a region's readiness is tracked and its data are moved (PROACT,
// section III-B), and what each block of a launch announces.
//
// A chunk's counter counts elements, not blocks: a block adds the number of the chunk's elements
// that it has written. It can announce them all at its end or bit by bit. The chunk is complete
// when the counter has grown by the chunk's target.
#pragma once

#include <cstdint>
#include <vector>

#include "interlace/kernel/chunk_table.hpp"
#include "interlace/kernel/mapping.hpp"
#include "interlace/kernel/region.hpp"

namespace interlace::kernel {

inline constexpr std::uint64_t least_share = 8;  // the smallest chunk has chunk_bytes / least_share

// Whether a part is one chunk, so that any larger chunk_bytes cuts it in the same way.
constexpr bool is_one_chunk(std::uint64_t part_bytes, std::uint64_t chunk_bytes) {
  return chunk_bytes / least_share >= part_bytes;
}

// Cuts what `owner` delivers in an epoch into chunks of at most options.chunk_bytes, in ascending
// order. All of a chunk goes to the same devices. Boundaries are at multiples of 128 bytes and of
// elements, except at the ends of a part; a part's last chunk can be larger by less than such a
// step.
//
// The chunks double from a quarter of chunk_bytes, so that the first one leaves early, and shrink
// to an eighth at the end, so that little is left to move after the last block. For a copy engine
// this differs: the engine loses microseconds between copies, and small chunks at the end would
// queue for it. There each chunk is an eighth larger than the one before, up to chunk_bytes. This
// gives the engine that time while the next chunk is computed. The last two chunks share the rest
// equally.
//
// Throws usage_error where a chunk cannot hold an element.
std::vector<chunk> cut_chunks(const region_state& state, std::uint32_t owner);

// The announcements of a launch's blocks: block b makes entries[first[b]] to entries[first[b + 1] -
// 1]. An element to which several blocks are mapped counts for each of them.
struct publications {
  std::vector<std::uint32_t> first{0};
  std::vector<publication> entries;
  std::vector<std::uint64_t> targets;  // by chunk: the sum over all blocks
  friend bool operator==(const publications&, const publications&) = default;
};

// Throws model_error if a block is mapped outside of its device's part, or if no block is mapped to
// an element that is delivered.
publications announce(const std::vector<chunk>& chunks, const block_mapping& mapping,
                      std::uint64_t blocks, element_range part);

}  // namespace interlace::kernel
