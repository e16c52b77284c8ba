// The counts of one GPU's kernel accesses.
#pragma once

#include <cstdint>

#include "sim/engine/event_queue.hpp"
#include "sim/gpu/remote_load_counts.hpp"
#include "sim/gpu/store_counts.hpp"
#include "sim/gpu/translation_counts.hpp"

namespace interlace::sim {

struct gpu_counters {
  // Accesses to memory; an access is a pair of a warp's instruction and a line.
  std::uint64_t accesses = 0;
  std::uint64_t l1_hits = 0;
  std::uint64_t l1_misses = 0;
  store_counts stores;        // stores of kernels to other devices
  std::uint64_t atomics = 0;  // packets of atomics to other devices
  std::uint64_t atomic_payload = 0;
  std::uint64_t atomic_wire = 0;
  std::uint64_t reads = 0;  // read requests of kernels to other devices
  std::uint64_t read_payload = 0;
  std::uint64_t read_wire = 0;
  // The sum over the reads of the time from this GPU's port until the reply.
  picoseconds read_latency = 0;
  std::uint64_t scalar = 0;  // accesses that went to scalar caches
  remote_load_counts loads;  // filled only if remote loads are watched
  translation_counts translations;

  // The number of packets that kernels sent to other devices or received as replies, and the number
  // of bytes in these packets.
  std::uint64_t remote_transactions() const { return stores.packets + atomics + reads; }
  std::uint64_t stored_payload() const { return stores.payload + atomic_payload; }
  std::uint64_t stored_wire() const { return stores.wire + atomic_wire; }
};

}  // namespace interlace::sim
