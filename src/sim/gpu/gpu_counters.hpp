// What one GPU counts of its kernels' accesses.
#pragma once

#include <cstdint>

#include "sim/engine/event_queue.hpp"
#include "sim/gpu/remote_load_counts.hpp"
#include "sim/gpu/store_counts.hpp"
#include "sim/gpu/translation_counts.hpp"

namespace interlace::sim {

struct gpu_counters {
  std::uint64_t accesses = 0;  // (warp instruction, line) pairs to memory
  std::uint64_t l1_hits = 0;
  std::uint64_t l1_misses = 0;
  store_counts stores;        // of kernels to other devices
  std::uint64_t atomics = 0;  // packets of those
  std::uint64_t atomic_payload = 0;
  std::uint64_t atomic_wire = 0;
  std::uint64_t reads = 0;  // requests of kernels to other devices
  std::uint64_t read_payload = 0;
  std::uint64_t read_wire = 0;
  picoseconds read_latency = 0;  // of those, the sum: from this GPU's port until they are back
  std::uint64_t scalar = 0;      // of the accesses, those that went to scalar caches
  remote_load_counts loads;      // where remote loads are watched
  translation_counts translations;

  // What kernels sent to other devices, and had from them: packets, and their bytes.
  std::uint64_t remote_transactions() const { return stores.packets + atomics + reads; }
  std::uint64_t stored_payload() const { return stores.payload + atomic_payload; }
  std::uint64_t stored_wire() const { return stores.wire + atomic_wire; }
};

}  // namespace interlace::sim
