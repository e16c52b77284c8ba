// What loads of kernels find where some of the memory is other GPUs': how much is remote, how much of
// a remote line is used, how often the L1 has it.
#pragma once

#include <cstdint>

namespace interlace::sim {

// An access is a warp's instruction and one line that it touches. Loads by scalar caches are not in
// it.
struct remote_load_counts {
  std::uint64_t local = 0;
  std::uint64_t remote = 0;
  std::uint64_t hits = 0;   // of the remote ones, in the L1
  std::uint64_t words = 0;  // of 4 bytes that lanes want of the lines of remote ones
  std::uint64_t local_stores = 0;
  std::uint64_t remote_stores = 0;

  remote_load_counts& operator+=(const remote_load_counts& other) {
    local += other.local;
    remote += other.remote;
    hits += other.hits;
    words += other.words;
    local_stores += other.local_stores;
    remote_stores += other.remote_stores;
    return *this;
  }
};

}  // namespace interlace::sim
