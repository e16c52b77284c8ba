// The tables in a device's memory for one kind of tracked launch, and the copies of the launch's
// chunks by copy engines.
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
  counter* launches = nullptr;  // number of finished launches; the same pointer as table.launches
  unsigned int* started = nullptr;  // two words for the polling agent

  // The work that the exchange must do for this launch.
  tracked_launch over() const {
    if (started != nullptr) return {.launches = launches, .words = started, .count = 2};
    return {.launches = launches,
            .words = table.flags,
            .count = table.flags != nullptr ? table.count : 0};
  }
};

// The kinds of work that wait for complete chunks.
enum class chunk_waiter : std::uint8_t { nobody, streams, agent };

// Copies the tables to the memory of the GPU, with all counts 0, and blocks until the copy is done.
// If blocks announce their ranges themselves, `announced.first` has a single entry. Throws
// usage_error if streams would have to wait for too many chunks.
launch_tracking make_tracking(device_memory& memory, int ordinal,
                              const std::vector<kernel::chunk>& chunks,
                              const kernel::publications& announced, std::uint32_t region,
                              const kernel::region_state& state, chunk_waiter waiter);

// The devices that receive at least one of the chunks.
std::uint32_t receivers(const std::vector<kernel::chunk>& chunks);

// The number of copy streams to each of `peers`. A stream takes microseconds to switch to the next
// chunk, and the stream's engine is idle for that time. With copies to several devices, other
// copies fill that time. More streams than engines would only add costs.
std::uint32_t copy_lanes(std::uint32_t peers);

// A stream that copies chunks to a peer. It copies every lanes-th chunk, beginning with chunk
// `lane`.
struct copy_stream {
  std::uint32_t which = 0;  // index of the stream among the device's copy streams
  std::uint32_t peer = 0;
  std::uint32_t lane = 0;
  std::uint32_t lanes = 1;
};

// Calls f with each copy stream of a device that sends chunks to `peers`. The streams to the next
// device come first.
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

// Enqueues a wait and a copy for each chunk of the copy stream. Call this function after the kernel
// is enqueued. If there is only one hardware queue, waits ahead of the kernel would cause a
// deadlock.
void enqueue_chunk_copies(const std::vector<kernel::chunk>& chunks,
                          const kernel::chunk_table& table, const copy_stream& how,
                          const std::byte* from, std::byte* to, cudaStream_t stream);

}  // namespace interlace::cuda
