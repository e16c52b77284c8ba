// Moves bytes between files and memories with many threads. Bytes move directly between files and
// host memory. Between files and GPUs they move through a ring of page-locked slots.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/carrier.hpp"
#include "checkpoint/layout.hpp"

namespace interlace::checkpoint {

struct file {
  int descriptor = -1;  // open file; the caller keeps ownership
  std::string name;     // name of the file in messages
};

struct transfer_options {
  std::uint32_t threads = 1;
  // The size of a chunk for a GPU. It must be the size of the carrier's slots.
  std::uint64_t chunk_bytes = std::uint64_t{16} << 20U;
  std::uint64_t piece_bytes = std::uint64_t{1} << 20U;
  bool checksums = false;
  // Whether to bypass the page cache. With `direct`, bytes for GPUs that the page cache does not
  // have are read directly from the disk.
  bool direct = false;
  // The longest time in seconds for which a chunk may move from or to a GPU.
  double deadline_s = 60;
  // A thread that waits calls this function from time to time, with the number of bytes moved so
  // far. An exception from the function ends the transfer.
  std::function<void(std::uint64_t)> progress;
};

// Reads batches of segments, while the caller adds more batches. All functions throw usage_error if
// a file ends before a segment does, or if a segment has no file or no carrier. They throw
// device_error if a file cannot be read, if a copy fails, or if a copy misses the deadline. The
// first error ends the transfer, and every later call throws it again.
class reader {
 public:
  // `gpus` may be null if no segment belongs to a GPU. The files and the carrier must outlive the
  // reader.
  reader(std::vector<file> files, carrier* gpus, transfer_options options);
  // Does the same as close().
  ~reader();
  reader(const reader&) = delete;
  reader& operator=(const reader&) = delete;

  // Adds a batch, which is read after all earlier batches. Returns the batch's number, counted from
  // 0. No chunk has bytes of two batches.
  std::size_t add(std::vector<segment> segments);
  // Waits until all bytes of a batch have arrived. If checksums are requested, returns the CRC-32C
  // of each of the batch's tensors. The index is the tensor's number in the segments. The checksums
  // cover the bytes as they were read, before they go to a GPU.
  std::vector<std::uint32_t> wait(std::size_t batch);
  // Whether all bytes of a batch have arrived. Does not wait.
  bool done(std::size_t batch);
  // The reason why a file could not be read directly although `direct` is set. The text is empty if
  // all files could be read directly.
  std::string direct_problem() const;
  // Drops the segments that have not been read. Waits until no copy is in flight, except for copies
  // that miss the deadline. No other function may be called afterwards. A second call does nothing.
  void close() noexcept;

 private:
  class mover;
  friend std::vector<std::uint32_t> write_segments(const std::vector<file>& files,
                                                   std::vector<segment> segments, carrier* gpus,
                                                   const transfer_options& options);
  std::unique_ptr<mover> mover_;
};

// Reads all segments as one batch. After an error, only copies that missed the deadline may be in
// flight.
std::vector<std::uint32_t> read_segments(const std::vector<file>& files,
                                         std::vector<segment> segments, carrier* gpus,
                                         const transfer_options& options);

// Writes all segments. Throws the same errors as read_segments. The checksums cover the bytes as
// they were written.
std::vector<std::uint32_t> write_segments(const std::vector<file>& files,
                                          std::vector<segment> segments, carrier* gpus,
                                          const transfer_options& options);

}  // namespace interlace::checkpoint
