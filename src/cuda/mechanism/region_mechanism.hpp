// A mechanism for regions of a group. It enqueues its work on the caller's streams. The caller
// launches the kernels, and nothing is recorded.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cuda/region/tracking.hpp"
#include "interlace/cuda/region/exchange.hpp"
#include "interlace/kernel/chunk_table.hpp"
#include "interlace/kernel/region.hpp"

namespace interlace::cuda {

// A region's state on a device of this process.
struct region_side {
  std::uint32_t device = 0;
  int ordinal = 0;
  std::uint32_t parity = 0;  // buffers[device][parity] is the front buffer
  std::vector<kernel::chunk> chunks;
  launch_tracking tracking;
  barrier_arguments barrier;
  // The region's own streams on this device. streams[peer] has the copies to a peer.
  // streams[devices + peer] is a second stream to the peer, for every second chunk. streams[device]
  // is for this device's agent. If several devices of this process share the GPU, all elements of
  // the list are the same stream.
  std::vector<cudaStream_t> streams;
  cudaEvent_t begun_event = nullptr;  // event that `begin` records
  cudaEvent_t event = nullptr;        // event that orders streams
  cudaStream_t stream = nullptr;      // stream of the caller in the current epoch
  bool by_agent = false;              // whether an agent moves the chunks in the current epoch
};

class region_mechanism {
 public:
  region_mechanism() = default;
  virtual ~region_mechanism() = default;
  region_mechanism(const region_mechanism&) = delete;
  region_mechanism& operator=(const region_mechanism&) = delete;
  region_mechanism(region_mechanism&&) = delete;
  region_mechanism& operator=(region_mechanism&&) = delete;

  virtual chunk_waiter waiter() const { return chunk_waiter::nobody; }
  // Whether kernels store to the peers' buffers themselves.
  virtual bool stores_to_peers() const { return false; }
  // Throws usage_error if the GPU `ordinal` cannot move chunks by this mechanism with the options
  // `how`. `sharers` is the number of this process's devices on the GPU.
  virtual void check(const kernel::region_options& /*how*/, int /*ordinal*/,
                     std::uint32_t /*sharers*/) const {}

  // `begin` and `deliver` only enqueue work. The device of `s` must be the current one. `loaded`
  // says whether the caller's kernel is loaded, so that the kernel's launch does not block.
  virtual void begin(const kernel::region_state& /*state*/, region_side& /*s*/,
                     bool /*loaded*/) const {}
  // Enqueues the deliveries. The region calls this function after the caller has enqueued its
  // kernel and before the barrier is enqueued.
  virtual void deliver(const kernel::region_state& state, const region_side& s) const = 0;
};

// The buffer into which kernels of `device` write in the current epoch of `s`.
std::byte* back_of(const kernel::region_state& state, const region_side& s, std::uint32_t device);

// Makes the caller's stream wait for the work that is now on the stream `from`.
void join(const region_side& s, cudaStream_t from);

// Copies the device's whole part, with one stream for each peer. The caller's stream then waits for
// these streams.
void copy_part(const kernel::region_state& state, const region_side& s);

}  // namespace interlace::cuda
