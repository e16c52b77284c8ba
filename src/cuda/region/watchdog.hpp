// Adds a deadline to the waits of streams for chunks, which have none of their own.
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
  std::vector<kernel::chunk_table> launches;  // launches for whose chunks streams may wait
};

// Blocks until all streams have ended. If no device announces anything of a chunk or enters an
// exchange until the deadline, the function names the late chunk in a device's `failure`. It then
// marks all devices as failed, so that waits of kernels end, too, and releases the streams' waits;
// their copies then have wrong contents. Returns false if streams are still busy one more deadline
// later, because a kernel hangs. Errors of streams are left to the caller.
bool await_streams(const std::vector<watched_device>& devices, double deadline_s);

}  // namespace interlace::cuda
