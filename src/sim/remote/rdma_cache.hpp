// A cache of remote lines alone, between the L1 caches of a GPU and its RDMA engine (DualOpt, PACT
// 2022, section 4.2): write-back, least recently used, invalid after every kernel. Data live in the
// simulated program's memory; tags, and which bytes are valid or dirty, are kept here.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/fabric/byte_mask.hpp"

namespace interlace::sim {

// What is left of an L2 from which so many bytes are carved, at equal area. Throws usage_error,
// which names the key, where either would not divide into sets.
std::uint64_t carve_rdma_cache(std::uint64_t l2_bytes, std::uint64_t l2_row_bytes,
                               std::uint64_t rdma_bytes, std::uint32_t rdma_ways,
                               std::uint32_t line_bytes);

class rdma_cache {
 public:
  struct dirty_line {
    std::uint64_t line = 0;
    byte_mask bytes;  // none: nothing has to be written back
    friend bool operator==(const dirty_line&, const dirty_line&) = default;
  };

  // Sets need not be a power of two: 1.5 MiB of 16 ways are 1536.
  rdma_cache(std::uint64_t bytes, std::uint32_t ways, std::uint32_t line_bytes);

  // A load of those bytes: true if all are here.
  bool read(std::uint64_t line, const byte_mask& wanted);
  // A line has come. What it displaces is in the result; bytes stored meanwhile stay dirty.
  dirty_line fill(std::uint64_t line);
  // A store, which needs no fetch: the other bytes of its line stay invalid.
  dirty_line write(std::uint64_t line, const byte_mask& bytes);
  // A kernel has ended: dirty lines in the order of their sets, and nothing is valid any more.
  std::vector<dirty_line> flush();

  std::uint32_t sets() const { return sets_; }
  std::uint32_t lines() const;  // that have valid bytes

 private:
  struct slot {
    std::uint64_t line = 0;
    std::uint64_t used = 0;  // 0: empty
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
