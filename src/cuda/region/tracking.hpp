// One kind of tracked launch as its device's memory has it, and how copy engines move its chunks.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "interlace/cuda/memory/memory.hpp"
#include "interlace/cuda/region/exchange.hpp"
#include "interlace/kernel/chunk_table.hpp"
#include "interlace/kernel/region.hpp"
#include "kernel/chunks.hpp"

namespace interlace::cuda {

struct launch_tracking {
  kernel::chunk_table table;
  counter* launches = nullptr;      // those that are over; table.launches
  unsigned int* started = nullptr;  // two words of the polling agent

  // What the exchange that ends such a launch does to it.
  tracked_launch over() const {
    if (started != nullptr) return {.launches = launches, .words = started, .count = 2};
    return {.launches = launches,
            .words = table.flags,
            .count = table.flags != nullptr ? table.count : 0};
  }
};

// Who waits for chunks to be complete.
enum class chunk_waiter : std::uint8_t { nobody, streams, agent };

// Puts them into the memory of the GPU, all counts 0; waits. `announced.first` has one entry where
// blocks announce by themselves. Throws usage_error where streams would wait for too many chunks.
launch_tracking make_tracking(device_memory& memory, int ordinal,
                              const std::vector<kernel::chunk>& chunks,
                              const kernel::publications& announced, std::uint32_t region,
                              const kernel::region_state& state, chunk_waiter waiter);

// Devices that receive any of the chunks.
std::uint32_t receivers(const std::vector<kernel::chunk>& chunks);

// Copy streams to each of `peers`. A stream takes microseconds from one chunk to the next, in which
// an engine idles; copies to several devices fill that time, and more streams than engines cost
// more.
std::uint32_t copy_lanes(std::uint32_t peers);

// A stream that copies each lanes-th chunk from `lane` on to a peer.
struct copy_stream {
  std::uint32_t which = 0;  // of the device's copy streams
  std::uint32_t peer = 0;
  std::uint32_t lane = 0;
  std::uint32_t lanes = 1;
};

// Calls f with those of a device that sends chunks to `peers`, the next device's first.
template <class F>
void each_copy_stream(std::uint32_t peers, std::uint32_t device, std::uint32_t devices,
                      const F& f) {
  const std::uint32_t lanes = copy_lanes(peers);
  for (std::uint32_t step = 1; step < devices; ++step) {
    const std::uint32_t peer = (device + step) % devices;
    if ((peers >> peer & 1U) == 0) continue;
    for (std::uint32_t lane = 0; lane < lanes; ++lane) {
      f(copy_stream{.which = peer + lane * devices, .peer = peer, .lane = lane, .lanes = lanes});
    }
  }
}

// Enqueues a wait for each chunk that the copy stream takes, and its copy. After the kernel: on one
// hardware queue, the waits would hold it up for ever.
void enqueue_chunk_copies(const std::vector<kernel::chunk>& chunks,
                          const kernel::chunk_table& table, const copy_stream& how,
                          const std::byte* from, std::byte* to, cudaStream_t stream);

}  // namespace interlace::cuda
