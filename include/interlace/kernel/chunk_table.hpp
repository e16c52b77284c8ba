// The chunks of a tracked launch, in a device's memory. The launch's blocks and the mover read this
// table.
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
  const std::uint32_t* first = nullptr;  // entries [first[b], first[b + 1]) are those of block b;
                                         // length: blocks + 1
  const publication* entries = nullptr;  // the publications of all blocks, block by block
  const chunk* chunks = nullptr;         // ascending
  std::uint32_t count = 0;
  std::uint32_t element_bytes = 0;
  std::uint32_t copy_threads = 0;          // threads of each kernel that the launch's blocks launch
  std::uint32_t region = 0;                // named only in error messages
  unsigned long long* counters = nullptr;  // one counter for each chunk; counters only increase
  const unsigned long long* targets = nullptr;   // for each chunk, the increase in one launch
  const unsigned long long* launches = nullptr;  // the number of finished launches
  // One flag for each chunk, set by the block that completes the chunk. Null: no flags are needed.
  unsigned int* flags = nullptr;
};

}  // namespace interlace::kernel
