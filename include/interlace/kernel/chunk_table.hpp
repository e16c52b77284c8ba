// The chunks of a tracked launch, in a device's memory. The launch's blocks and the mover read this
// table.
#pragma once

#include <cstdint>

namespace interlace::kernel {

// Elements [begin, end) of the whole region. All of these elements have the same owner.
struct chunk {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint32_t peers = 0;  // devices that receive the chunk; bit d stands for device d
  friend bool operator==(const chunk&, const chunk&) = default;
};

// The number of elements of a chunk that a block writes.
struct publication {
  std::uint32_t chunk = 0;
  std::uint32_t elements = 0;
  friend bool operator==(const publication&, const publication&) = default;
};

struct chunk_table {
  const std::uint32_t* first = nullptr;  // entries [first[b], first[b + 1]) belong to block b; the
                                         // array has blocks + 1 elements
  const publication* entries = nullptr;  // the publications of all blocks, block by block
  const chunk* chunks = nullptr;         // in ascending order
  std::uint32_t count = 0;
  std::uint32_t element_bytes = 0;
  // The number of threads of each kernel that the launch's blocks launch.
  std::uint32_t copy_threads = 0;
  std::uint32_t region = 0;                // number of the region, for error messages only
  unsigned long long* counters = nullptr;  // one counter for each chunk; a counter only increases
  // For each chunk, the amount by which one launch increases the counter.
  const unsigned long long* targets = nullptr;
  const unsigned long long* launches = nullptr;  // number of finished launches
  // One flag for each chunk. The block that completes a chunk sets its flag. The pointer is null if
  // no flags are needed.
  unsigned int* flags = nullptr;
};

}  // namespace interlace::kernel
