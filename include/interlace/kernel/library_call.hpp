// A call of a library (a sort, a scan, an FFT) that runs in a device's stream like a kernel.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "interlace/base/errors.hpp"

namespace interlace::kernel {

// Operations of all lanes together, by kind (see interlace::operation).
struct operation_counts {
  std::uint64_t fp32 = 0;
  std::uint64_t fp64 = 0;
  std::uint64_t integer = 0;
  std::uint64_t special = 0;
};

// The call works on the device's local and unified arrays. What it does to regions is not tracked.
//
// The host and the simulated node call on_cpu once, when it is the call's turn in the stream. The
// simulated node charges a launch, followed by the time that the memory needs for the bytes or the
// compute units need for the operations, whichever is longer.
//
// The real node calls on_gpu with a cudaStream_t of the device, which is then the current device.
// on_gpu must enqueue its work in that stream and in no other. It must neither wait nor allocate,
// so that it can be captured in a graph, and it must throw if a launch fails. A kernel that it
// launches early (programmatic dependent launch) must wait before it touches memory. The node calls
// on_gpu as often as it needs: once to capture, or once for each run on plain streams and once more
// before that, to load its kernels.
struct library_call {
  std::string name;                 // in timelines and errors
  std::uint64_t bytes_read = 0;     // from the device's own memory
  std::uint64_t bytes_written = 0;  // to the device's own memory
  operation_counts operations;
  std::function<void()> on_cpu;
  std::function<void(void* stream)> on_gpu;
};

// Throws model_error if the function that a node would call is missing, or the device does not
// exist.
template <class Function>
void check_call(const library_call& c, const Function& function, std::uint32_t device,
                std::uint32_t devices) {
  if (device >= devices) {
    throw model_error("a call of " + c.name + " on device " + std::to_string(device) + " of " +
                      std::to_string(devices));
  }
  if (!function) throw model_error("a call of " + c.name + " has no function for this node");
}

}  // namespace interlace::kernel
