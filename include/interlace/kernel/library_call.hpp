// A call of a library (a sort, a scan, an FFT) that runs in a device's stream like a kernel.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "interlace/base/errors.hpp"

namespace interlace::kernel {

// The number of operations of all lanes together, by kind (see interlace::operation).
struct operation_counts {
  std::uint64_t fp32 = 0;
  std::uint64_t fp64 = 0;
  std::uint64_t integer = 0;
  std::uint64_t special = 0;
};

// An array that one kernel of a library call reads or writes once, from its first to its last byte.
struct library_sweep {
  const void* data = nullptr;
  std::uint64_t bytes = 0;
  bool writes = false;
  std::uint32_t kernel = 0;  // number of the kernel in the call, counted from 0
};

// A call of a library. It works on the device's local and unified arrays. The call's accesses to
// regions are not tracked.
//
// The host calls on_cpu once, when the call's turn comes in the stream. The simulated node calls
// on_cpu once, between the beginning and the end of the call, and perhaps from another thread. The
// simulated node charges a launch for each of the call's kernels, followed by the kernel's time.
// That time is the longest of three times: the time in which the L2 moves the kernel's bytes, the
// time in which the memory moves them, and the time in which the compute units execute the kernel's
// share of the operations. A call without sweeps moves its bytes past the L2, as one kernel.
//
// The real node calls on_gpu with a cudaStream_t of the device. During this call, the device is the
// current device. on_gpu must enqueue its work in that stream and in no other. It must neither wait
// nor allocate, so that it can be captured in a graph, and it must throw if a launch fails. A
// kernel that on_gpu launches early (programmatic dependent launch) must wait before it touches
// memory. The node calls on_gpu once if it captures a graph. Without graphs, the node calls on_gpu
// once to load its kernels, and once more for each run.
struct library_call {
  std::string name;                 // shown in timelines and errors
  std::uint64_t bytes_read = 0;     // bytes that the call reads from the device's own memory
  std::uint64_t bytes_written = 0;  // bytes that the call writes to the device's own memory
  operation_counts operations;
  // in the order of their kernels; together, they move bytes_read and bytes_written
  std::vector<library_sweep> sweeps;
  std::function<void()> on_cpu;
  std::function<void(void* stream)> on_gpu;
};

// Throws model_error if the device does not exist, or if the call lacks the function that this kind
// of node needs.
template <class Function>
void check_call(const library_call& c, const Function& function, std::uint32_t device,
                std::uint32_t devices) {
  if (device >= devices) {
    throw model_error("a call of " + c.name + " on device " + std::to_string(device) + " of " +
                      std::to_string(devices));
  }
  if (!function)
    throw model_error("a call of " + c.name + " has no function for this kind of node");
}

}  // namespace interlace::kernel
