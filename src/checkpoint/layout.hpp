// How bytes of files are cut: into chunks, each of which travels through one slot of page-locked
// memory, and into pieces, each of which one thread reads or writes at a time. Pure.
#pragma once

#include <cstdint>
#include <vector>

namespace interlace::checkpoint {

inline constexpr int host = -1;  // is no GPU

// Bytes of a file and where in a memory they belong.
struct segment {
  std::uint32_t file = 0;
  std::uint64_t offset = 0;  // in the file
  std::uint64_t bytes = 0;
  std::uintptr_t address = 0;
  int gpu = host;            // as CUDA numbers it, whose memory the address is in
  std::uint32_t tensor = 0;  // that a checksum is of
};

// A part of a segment that lies in one chunk.
struct part : segment {
  std::uint64_t slot_offset = 0;  // in the chunk's slot; 0 where there is none
};

struct chunk {
  std::uint32_t first_part = 0;
  std::uint32_t parts = 0;
  std::uint32_t pieces = 0;
  std::uint64_t bytes = 0;
  int gpu = host;          // host: threads move it without a slot
  std::uint32_t turn = 0;  // how many chunks of GPUs are before it
};

struct piece {
  std::uint32_t chunk = 0;
  std::uint32_t part = 0;
  std::uint64_t begin = 0;  // in the part
  std::uint64_t bytes = 0;
};

struct layout {
  std::vector<part> parts;    // by chunk
  std::vector<chunk> chunks;  // in the order in which they are moved
  std::vector<piece> pieces;  // by chunk and part
  std::uint64_t bytes = 0;
};

struct cut {
  std::uint64_t chunk_bytes = std::uint64_t{16} << 20U;
  std::uint64_t piece_bytes = std::uint64_t{1} << 20U;
  bool by_tensor = false;  // no part has bytes of two tensors
};

// Parts of a chunk begin at multiples of this in the slot.
inline constexpr std::uint64_t slot_alignment = 256;

// A chunk is of one memory and has at most `chunk_bytes`, padding included. The chunks of each
// memory are in the order of files and offsets, and those of all memories take turns, so that all
// memories are complete at the same time. Throws usage_error for a cut of zero bytes, or for
// chunks of less than `slot_alignment`.
layout lay_out(std::vector<segment> segments, const cut& how);

}  // namespace interlace::checkpoint
