// A cache that holds only remote lines, between the L1 caches of a GPU and its RDMA engine
// (DualOpt, PACT 2022, section 4.2). The cache is write-back, replaces the least recently used
// line, and is invalidated after every kernel. This class keeps the tags, and the valid and dirty
// bytes. The data is in the simulated program's memory.
#pragma once

#include <cstdint>
#include <vector>

#include "interlace/sim/fabric/byte_mask.hpp"

namespace interlace::sim {

// The size of the L2 after the cache has taken its part. Both together keep the area of the
// original L2. Throws usage_error if one of the two does not divide into sets. The error names the
// key.
std::uint64_t carve_rdma_cache(std::uint64_t l2_bytes, std::uint64_t l2_row_bytes,
                               std::uint64_t rdma_bytes, std::uint32_t rdma_ways,
                               std::uint32_t line_bytes);

class rdma_cache {
 public:
  struct dirty_line {
    std::uint64_t line = 0;
    byte_mask bytes;  // the dirty bytes; if there are none, no write-back is needed
    friend bool operator==(const dirty_line&, const dirty_line&) = default;
  };

  // The number of sets need not be a power of two: 1.5 MiB with 16 ways has 1536 sets.
  rdma_cache(std::uint64_t bytes, std::uint32_t ways, std::uint32_t line_bytes);

  // Makes a load of the bytes in `wanted`. Returns true if all of them are in the cache.
  bool read(std::uint64_t line, const byte_mask& wanted);
  // Fills in a line that has arrived. Returns the dirty line that the new line displaces. Bytes of
  // the line that were stored since the request stay dirty.
  dirty_line fill(std::uint64_t line);
  // Makes a store. A store fetches no data, so the other bytes of its line stay invalid. Returns
  // the dirty line that the store displaces.
  dirty_line write(std::uint64_t line, const byte_mask& bytes);
  // Returns the dirty lines, in the order of their sets, and invalidates all lines. The caller must
  // call this function at the end of each kernel.
  std::vector<dirty_line> flush();

  std::uint32_t sets() const { return sets_; }
  std::uint32_t lines() const;  // number of lines with valid bytes

 private:
  struct slot {
    std::uint64_t line = 0;
    std::uint64_t used = 0;  // time of the last use; 0 if the entry is empty
    byte_mask valid;
    byte_mask dirty;
  };
  slot* find(std::uint64_t line);
  slot& place(std::uint64_t line, dirty_line& displaced);

  std::uint32_t ways_;
  std::uint32_t line_bytes_;
  std::uint32_t sets_;
  std::uint64_t clock_ = 0;
  byte_mask whole_;
  std::vector<slot> slots_;  // [set][way]
};

}  // namespace interlace::sim
