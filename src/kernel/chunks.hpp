// Chunks are the units in which a region's readiness is tracked and the region's data is moved
// (PROACT, section III-B). This file also lists what each block of a launch announces.
//
// A chunk's counter counts elements, not blocks. A block adds the number of the chunk's elements
// that it has written. The block can announce all of them together at its end, or some at a time.
// The chunk is complete when the counter has grown by the chunk's target.
#pragma once

#include <cstdint>
#include <vector>

#include "interlace/kernel/chunk_table.hpp"
#include "interlace/kernel/mapping.hpp"
#include "interlace/kernel/region.hpp"

namespace interlace::kernel {

// The smallest chunk has chunk_bytes divided by this number.
inline constexpr std::uint64_t least_share = 8;

// Whether a part is a single chunk. If it is, every larger chunk_bytes gives the same chunk.
constexpr bool is_one_chunk(std::uint64_t part_bytes, std::uint64_t chunk_bytes) {
  return chunk_bytes / least_share >= part_bytes;
}

// Cuts the elements that `owner` delivers in an epoch into chunks of at most options.chunk_bytes,
// in ascending order. All elements of a chunk go to the same devices. Chunks begin at multiples of
// 128 bytes and of elements, except at the start of a part. A part's last chunk can be larger than
// the limit by less than such a multiple.
//
// The first chunk has a quarter of chunk_bytes, so that it leaves early. Each following chunk has
// twice the size, up to chunk_bytes. At the end, chunks shrink to an eighth of chunk_bytes, so that
// little is left to move after the last block. Chunks for a copy engine are cut differently. An
// engine loses microseconds between two copies, and small chunks at the end would queue for the
// engine. Each of these chunks is an eighth larger than the previous chunk, up to chunk_bytes. The
// engine therefore loses these microseconds while the kernel computes the next chunk. The last two
// chunks share the remaining elements equally.
//
// Throws usage_error if a chunk cannot hold an element.
std::vector<chunk> cut_chunks(const region_state& state, std::uint32_t owner);

// The announcements of a launch's blocks. Block b announces the entries [first[b], first[b + 1]).
// If several blocks are mapped to an element, the element counts once for each of these blocks.
struct publications {
  std::vector<std::uint32_t> first{0};
  std::vector<publication> entries;
  // For each chunk, the number of elements that all blocks together announce.
  std::vector<std::uint64_t> targets;
  friend bool operator==(const publications&, const publications&) = default;
};

// Lists the announcements of a launch. Throws model_error if a block is mapped to elements outside
// of its device's part, or if no block is mapped to an element that is delivered.
publications announce(const std::vector<chunk>& chunks, const block_mapping& mapping,
                      std::uint64_t blocks, element_range part);

}  // namespace interlace::kernel
