// One kind of tracked launch as its device's memory has it, and how copy engines move its chunks.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cuda/memory/memory.hpp"
#include "cuda/region/exchange.hpp"
#include "kernel/chunk_table.hpp"
#include "kernel/chunks.hpp"
#include "kernel/region.hpp"

namespace interlace::cuda {

struct launch_tracking {
  kernel::chunk_table table;
  counter* launches = nullptr;      // those that are over; table.launches
  unsigned int* started = nullptr;  // two words of the polling agent

  // What the exchange that ends such a launch does to it.
  tracked_launch over() const {
    if (started != nullptr) return {launches, started, 2};
    return {launches, table.flags, table.flags != nullptr ? table.count : 0};
  }
};

// Puts them into the memory of the GPU, all counts 0; waits. `announced.first` has one entry where
// blocks announce by themselves. Throws usage_error where streams would wait for too many chunks.
launch_tracking make_tracking(device_memory& memory, int ordinal,
                              const std::vector<kernel::chunk>& chunks,
                              const kernel::publications& announced, std::uint32_t region,
                              const kernel::region_state& state);

// Devices that receive any of the chunks.
std::uint32_t receivers(const std::vector<kernel::chunk>& chunks);

// Copy streams to each of `peers`. A stream takes microseconds from one chunk to the next, in which
// an engine idles; copies to several devices fill that time, and more streams than engines cost
// more.
std::uint32_t copy_lanes(std::uint32_t peers);

// Enqueues a wait for each chunk that `peer` receives, and its copy; lane k of n takes each n-th
// chunk. Behind the kernel: on one hardware queue, the waits would hold it up for ever.
void enqueue_chunk_copies(const std::vector<kernel::chunk>& chunks,
                          const kernel::chunk_table& table, std::uint32_t peer, std::uint32_t lane,
                          std::uint32_t lanes, const std::byte* from, std::byte* to,
                          cudaStream_t stream);

}  // namespace interlace::cuda
