// The deadline of what waits in streams for chunks: such a wait has none of its own.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <vector>

#include "interlace/cuda/region/exchange.hpp"
#include "interlace/kernel/chunk_table.hpp"

namespace interlace::cuda {

struct watched_device {
  int ordinal = 0;
  std::vector<cudaStream_t> streams;
  device_control* control = nullptr;
  wait_failure* failure = nullptr;            // in host memory
  std::vector<kernel::chunk_table> launches;  // those that streams may wait for
};

// Waits for all streams. If for the deadline no device has announced anything of a chunk or entered
// an exchange, it says in a device's `failure` which chunk is late, marks all devices as failed, so
// that waits of kernels end too, and lets the streams' waits go: what they then copy is not what
// was asked for. Returns false where streams are still busy one deadline after that: a kernel
// hangs. Errors of streams are left to whoever asks them.
bool await_streams(const std::vector<watched_device>& devices, double deadline_s);

}  // namespace interlace::cuda
