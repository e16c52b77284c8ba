// Moves bytes between files and memories with many threads: between files and host memory directly,
// between files and GPUs through a ring of page-locked slots.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "checkpoint/carrier.hpp"
#include "checkpoint/layout.hpp"

namespace interlace::checkpoint {

struct file {
  int descriptor = -1;  // remains the caller's
  std::string name;     // for errors
};

struct transfer_options {
  std::uint32_t threads = 1;
  std::uint64_t chunk_bytes = std::uint64_t{16} << 20U;  // of GPUs: the size of the carrier's slots
  std::uint64_t piece_bytes = std::uint64_t{1} << 20U;
  bool checksums = false;
  // Deadline for moving a chunk from or to a GPU.
  double deadline_s = 60;
  // Called from the calling thread from time to time, with the bytes moved so far. An exception
  // from it ends the transfer.
  std::function<void(std::uint64_t)> progress;
};

// Reads all segments. Returns the CRC-32C of each tensor, by its number, if checksums are
// requested. They cover the bytes as read, before they go to a GPU. `gpus` may be null if no
// segment belongs to a GPU.
//
// Throws usage_error for a file that ends before a segment does. Throws device_error for a file
// that cannot be read, for a failed copy, and for a copy that misses the deadline. After an error
// nothing is in flight, except copies that missed the deadline.
std::vector<std::uint32_t> read_segments(const std::vector<file>& files,
                                         std::vector<segment> segments, carrier* gpus,
                                         const transfer_options& options);

// Writes all segments; errors are the same. The checksums cover the bytes as written.
std::vector<std::uint32_t> write_segments(const std::vector<file>& files,
                                          std::vector<segment> segments, carrier* gpus,
                                          const transfer_options& options);

}  // namespace interlace::checkpoint
