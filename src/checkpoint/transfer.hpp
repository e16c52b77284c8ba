// Moves bytes between files and memories with many threads: file to host memory directly, file to
// GPUs by way of a ring of page-locked slots, and back.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "checkpoint/carrier.hpp"
#include "checkpoint/layout.hpp"

namespace interlace::checkpoint {

struct file {
  int descriptor = -1;  // stays the caller's
  std::string name;     // for errors
};

struct transfer_options {
  std::uint32_t threads = 1;
  std::uint64_t chunk_bytes = std::uint64_t{16} << 20U;  // where GPUs are: the carrier's slots
  std::uint64_t piece_bytes = std::uint64_t{1} << 20U;
  bool checksums = false;
  // That a chunk may take from or to a GPU.
  double deadline_s = 60;
  // Called from the calling thread now and then with the bytes that were moved so far; what it
  // throws ends the transfer.
  std::function<void(std::uint64_t)> progress;
};

// Reads all segments. Returns the CRC-32C of each tensor, by its number, where checksums are asked
// for: of the bytes as they were read, before they went to a GPU. `gpus` may be null where no
// segment is of one.
//
// Throws usage_error for a file that ends before a segment does, device_error for one that cannot
// be read, for a copy that fails, and for one that misses the deadline. Nothing is under way then,
// but copies that missed the deadline.
std::vector<std::uint32_t> read_segments(const std::vector<file>& files,
                                         std::vector<segment> segments, carrier* gpus,
                                         const transfer_options& options);

// Writes them, the other way; errors are the same. The checksums are of the bytes as they were
// written.
std::vector<std::uint32_t> write_segments(const std::vector<file>& files,
                                          std::vector<segment> segments, carrier* gpus,
                                          const transfer_options& options);

}  // namespace interlace::checkpoint
