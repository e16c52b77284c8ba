// A call of a library (a sort, a scan, an FFT) that stands in a device's stream like a kernel.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/errors.hpp"

namespace interlace::kernel {

// Operations of all lanes together, by kind (see interlace::operation).
struct operation_counts {
  std::uint64_t fp32 = 0;
  std::uint64_t fp64 = 0;
  std::uint64_t integer = 0;
  std::uint64_t special = 0;
};

// It works on the device's local and unified arrays; what it does to regions is not tracked.
//
// The host and the simulated node call on_cpu where the call's turn in the stream comes, once. The
// simulated node takes its launch and then as long as the memory needs for the bytes, or the
// compute units for the operations, whichever is longer.
//
// The real node calls on_gpu with a cudaStream_t of the device, which is the current one: it
// enqueues there and nowhere else, neither waits nor allocates, so that it can be captured in a
// graph, and throws where a launch fails. A kernel that it launches early (programmatic dependent
// launch) waits before it touches memory. It is called as often as the node needs: once to capture,
// or once for each run on plain streams and once before to load its kernels.
struct library_call {
  std::string name;                 // in timelines and errors
  std::uint64_t bytes_read = 0;     // from the device's own memory
  std::uint64_t bytes_written = 0;  // to it
  operation_counts operations;
  std::function<void()> on_cpu;
  std::function<void(void* stream)> on_gpu;
};

// Throws model_error where the function that a node is to call is missing, or the device.
template <class Function>
void check_call(const library_call& c, const Function& function, std::uint32_t device,
                std::uint32_t devices) {
  if (device >= devices) {
    throw model_error("a call of " + c.name + " on device " + std::to_string(device) + " of " +
                      std::to_string(devices));
  }
  if (!function) throw model_error("a call of " + c.name + " says nothing that this node can do");
}

}  // namespace interlace::kernel
