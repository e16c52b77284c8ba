// The chunks of a tracked launch in a device's memory, as its blocks and the mover see them.
#pragma once

#include <cstdint>

namespace interlace::kernel {

// Elements [begin, end) of the whole region. They all have the same owner.
struct chunk {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint32_t peers = 0;  // bit d: device d receives the chunk
  friend bool operator==(const chunk&, const chunk&) = default;
};

// The number of elements of a chunk that a block writes.
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
  std::uint32_t copy_threads = 0;          // threads of each kernel that the launch's blocks launch
  std::uint32_t region = 0;                // named only in error messages
  unsigned long long* counters = nullptr;  // by chunk; they only increase
  const unsigned long long* targets = nullptr;   // by chunk: the increase in one launch
  const unsigned long long* launches = nullptr;  // number of finished launches
  // by chunk: set by the block that completes the chunk; null: not needed
  unsigned int* flags = nullptr;
};

}  // namespace interlace::kernel
