// Chunks: the units in which a region's readiness is tracked and its data moved (PROACT, section
// III-B), and what each block of a launch announces of them.
//
// A counter a chunk counts elements, not blocks: a block adds how many elements of the chunk it has
// written, so it may announce them all at its end or bit by bit, and the chunk is complete when the
// counter has grown by the chunk's target.
#pragma once

#include <cstdint>
#include <vector>

#include "kernel/chunk_table.hpp"
#include "kernel/mapping.hpp"
#include "kernel/region.hpp"

namespace interlace::kernel {

inline constexpr std::uint64_t least_share = 8;  // the smallest chunk's, of chunk_bytes

// Whether a part is one chunk, so that larger ones cut it the same.
constexpr bool is_one_chunk(std::uint64_t part_bytes, std::uint64_t chunk_bytes) {
  return chunk_bytes / least_share >= part_bytes;
}

// What `owner` delivers in an epoch, cut into chunks of at most options.chunk_bytes, in ascending
// order. All of a chunk goes to the same devices; boundaries lie on multiples of 128 bytes and of
// elements, but for those of the part, whose last chunk may be larger by less than such a step.
//
// Chunks double from a quarter of chunk_bytes at the start, so that the first one leaves early, and
// shrink to an eighth at the end, so that little is left behind the last block. A copy engine loses
// microseconds from one copy to the next, and small chunks at the end would queue for it: there
// each chunk, up to chunk_bytes, is an eighth of that larger than the one before, which gives the
// engine that time while the next one is computed, and the last two share what is left. Throws
// usage_error where a chunk cannot hold an element.
std::vector<chunk> cut_chunks(const region_state& state, std::uint32_t owner);

// What the blocks of a launch announce: block b entries[first[b]] to entries[first[b + 1] - 1]. An
// element that several blocks are mapped to counts for each of them.
struct publications {
  std::vector<std::uint32_t> first{0};
  std::vector<publication> entries;
  std::vector<std::uint64_t> targets;  // by chunk: the sum over all blocks
  friend bool operator==(const publications&, const publications&) = default;
};

// Throws model_error where a block is mapped outside of its device's part, or where an element that
// is delivered has no block.
publications announce(const std::vector<chunk>& chunks, const block_mapping& mapping,
                      std::uint64_t blocks, element_range part);

}  // namespace interlace::kernel
