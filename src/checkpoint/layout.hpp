// Cuts the bytes of files into chunks and pieces. A chunk travels through one slot of page-locked
// memory. Only one thread at a time reads or writes a piece. All functions are pure.
#pragma once

#include <cstdint>
#include <vector>

namespace interlace::checkpoint {

inline constexpr int host = -1;  // stands for the host where a GPU's number is expected

// Bytes of a file, and the place in memory where they belong.
struct segment {
  std::uint32_t file = 0;
  std::uint64_t offset = 0;  // offset of the bytes in the file
  std::uint64_t bytes = 0;
  std::uintptr_t address = 0;
  int gpu = host;            // CUDA's number of the GPU that owns the address
  std::uint32_t tensor = 0;  // number of the tensor to whose checksum the bytes belong
};

// The part of a segment that is in one chunk.
struct part : segment {
  std::uint64_t slot_offset = 0;  // offset of the part in the chunk's slot; 0 without a slot
};

struct chunk {
  std::uint32_t first_part = 0;
  std::uint32_t parts = 0;
  std::uint32_t pieces = 0;
  std::uint64_t bytes = 0;
  int gpu = host;  // if `host`, threads move the chunk without a slot
};

// Bytes of one part, or several small parts as a whole.
struct piece {
  std::uint32_t chunk = 0;
  std::uint32_t part = 0;  // number of the first part
  std::uint32_t parts = 1;
  std::uint64_t begin = 0;  // offset of the piece in the part; 0 if there are several parts
  std::uint64_t bytes = 0;
};

struct layout {
  // the parts of the first chunk, then the parts of the second chunk, and so on
  std::vector<part> parts;
  std::vector<chunk> chunks;  // the chunks move in this order
  std::vector<piece> pieces;  // sorted by chunk, and within a chunk by part
  std::uint64_t bytes = 0;
};

struct cut {
  std::uint64_t chunk_bytes = std::uint64_t{16} << 20U;
  std::uint64_t piece_bytes = std::uint64_t{1} << 20U;
  bool by_tensor = false;  // whether each part has bytes of only one tensor
  // Whether the layout must allow reads of whole pages of the file. In this case, a part begins at
  // the same offset in a page of its slot as in a page of its file. No page of the slot has bytes
  // of two parts. Each piece of a part, except the first, begins at a page of the file.
  bool by_page = false;
};

// In a slot, each part of a chunk begins at a multiple of this number. There is one exception: a
// part that directly follows the previous part in memory also follows it in the slot, so that one
// copy moves both.
inline constexpr std::uint64_t slot_alignment = 256;
inline constexpr std::uint64_t page_bytes = 4096;

// Cuts segments into chunks and pieces. A chunk belongs to one memory and has at most `chunk_bytes`
// bytes, including padding. The chunks of each memory are in the order of files and offsets. The
// memories take turns, so that all of them are complete at about the same time. Throws usage_error
// if chunks or pieces would have 0 bytes, or if chunks are smaller than `slot_alignment`.
layout lay_out(std::vector<segment> segments, const cut& how);

}  // namespace interlace::checkpoint
