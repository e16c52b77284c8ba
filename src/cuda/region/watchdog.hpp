// The deadline of what waits in streams for chunks: such a wait has none of its own.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <vector>

#include "cuda/region/exchange.hpp"
#include "kernel/chunk_table.hpp"

namespace interlace::cuda {

struct watched_device {
  std::uint32_t device = 0;
  int ordinal = 0;
  std::vector<cudaStream_t> streams;
  device_control* control = nullptr;
  wait_failure* failure = nullptr;            // in host memory
  std::vector<kernel::chunk_table> launches;  // those that streams may wait for
  // Of a region: launch k begins behind the event [k modulo their number], and so many are
  // enqueued. Empty: the launches are under way.
  std::vector<cudaEvent_t> begun;
  counter enqueued = 0;
};

// Everything that grows while devices get on, read past what runs there.
std::vector<counter> progress_of(const std::vector<watched_device>& devices);

// Says in the device's `failure`, unless that says something, which chunk one of its streams waits
// for.
void name_late_chunk(const watched_device& watched);

// Waits for all streams. If for the deadline no device has announced anything of a chunk or entered
// an exchange, it says in a device's `failure` which chunk is late, marks all devices as failed, so
// that waits of kernels end too, and lets the streams' waits go: what they then copy is not what
// was asked for. Returns false where streams are still busy one deadline after that: a kernel
// hangs. Errors of streams are left to whoever asks them.
bool await_streams(const std::vector<watched_device>& devices, double deadline_s);

}  // namespace interlace::cuda
