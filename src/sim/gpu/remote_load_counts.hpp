// What loads of kernels find where some of the memory is other GPUs': how much is remote, how much
// of a remote line is used, how often the L1 has it, and what is done for remote ones.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "sim/engine/event_queue.hpp"

namespace interlace::sim {

// An access is a warp's instruction and one line that it touches. Loads by scalar caches are not in
// it.
struct remote_load_counts {
  std::uint64_t local = 0;
  std::uint64_t remote = 0;
  std::uint64_t hits = 0;   // of the remote ones, in the L1
  std::uint64_t words = 0;  // of 4 bytes that lanes want of the lines of remote ones
  std::array<std::uint64_t, 32> by_words{};  // the remote ones, by how many words less one
  std::uint64_t local_stores = 0;
  std::uint64_t remote_stores = 0;
  std::uint64_t instructions = 0;  // loads, whose lines are all there
  picoseconds waited = 0;          // from their start until then, the sum
  picoseconds in_links = 0;        // requests and replies to other devices, the sum
  std::uint64_t l2_loads = 0;      // that came to the second level, other devices' included
  std::uint64_t l2_hits = 0;

  std::uint64_t bypassed = 0;      // remote loads that did not look into the L1
  std::uint64_t mask_hits = 0;     // of those, served by an entry that fetches their pieces
  std::uint64_t mask_misses = 0;   // that had an entry of their line with other pieces
  std::uint64_t coalesced = 0;     // packets of pieces that came
  std::uint64_t timeouts = 0;      // of those, sent for want of more
  std::uint64_t pieces = 0;        // in them
  std::uint64_t cache_hits = 0;    // in the RDMA cache
  std::uint64_t cache_misses = 0;  // not in it, those that wait for the same line included
};

}  // namespace interlace::sim
