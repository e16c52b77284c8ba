// Adds a deadline to the waits of streams for chunks. CUDA gives these waits no deadline.
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
  wait_failure* failure = nullptr;            // failure of the device, in host memory
  std::vector<kernel::chunk_table> launches;  // launches with chunks for which streams may wait
};

// Blocks until all streams have ended. The deadline passes if, for `deadline_s` seconds, no device
// announces elements of a chunk and no device enters an exchange. In this case, the function names
// the late chunk in a device's `failure`. It marks all devices as failed, so that the waits of
// kernels end, and it releases the waits of streams. The copies after these waits have wrong
// contents. Returns false if a kernel hangs, so that streams are still busy after the deadline has
// passed a second time. The caller must handle errors of streams.
bool await_streams(const std::vector<watched_device>& devices, double deadline_s);

}  // namespace interlace::cuda
