// The chunks of a tracked launch as its blocks, and whoever delivers, see them in a device's
// memory.
#pragma once

#include <cstdint>

namespace interlace::kernel {

// Elements [begin, end) of the whole region, all of one owner.
struct chunk {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint32_t peers = 0;  // bit d: device d receives it
  friend bool operator==(const chunk&, const chunk&) = default;
};

// How many elements of a chunk a block writes.
struct publication {
  std::uint32_t chunk = 0;
  std::uint32_t elements = 0;
  friend bool operator==(const publication&, const publication&) = default;
};

struct chunk_table {
  const std::uint32_t* first = nullptr;  // [blocks + 1]: block b announces entries
  const publication* entries = nullptr;  // [first[b]] to [first[b + 1] - 1]
  const chunk* chunks = nullptr;         // ascending
  std::uint32_t count = 0;
  std::uint32_t element_bytes = 0;
  std::uint32_t copy_threads = 0;  // of each kernel that the launch's blocks launch themselves
  std::uint32_t region = 0;        // only named in failures
  unsigned long long* counters = nullptr;        // by chunk; they only grow
  const unsigned long long* targets = nullptr;   // by chunk: what a launch adds
  const unsigned long long* launches = nullptr;  // those that are over
  unsigned int* flags = nullptr;  // by chunk: set by whoever completes it; null: nobody asks
};

}  // namespace interlace::kernel
