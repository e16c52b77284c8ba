// Launches that start before the work on which they depend has ended (programmatic dependent
// launch). This hides the time of the launch. The kernel itself waits for that work, by
// device::await_prerequisites.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <set>
#include <vector>

namespace interlace::cuda {

// Whether a kernel whose source calls await_prerequisites really waits: for this it must have been
// compiled for a GPU that supports such launches.
bool awaits_prerequisites(const cudaFuncAttributes& kernel);

// Bit d is set if graphs of device d, on GPU ordinals[d], may have such launches. No bit is set if
// a GPU stands for several devices. Otherwise the early blocks of one device could fill the
// multiprocessors and wait for an exchange, and the exchange would wait for another device's
// kernel, which finds no room: a deadlock.
std::uint32_t early_devices(const std::vector<int>& ordinals);

// Registers a `node` of this process on its GPUs as long as this object lives.
class gpu_tenant {
 public:
  explicit gpu_tenant(const std::vector<int>& ordinals);
  ~gpu_tenant();
  gpu_tenant(const gpu_tenant&) = delete;
  gpu_tenant& operator=(const gpu_tenant&) = delete;
  gpu_tenant(gpu_tenant&&) = delete;
  gpu_tenant& operator=(gpu_tenant&&) = delete;

  // Whether no other node uses one of these GPUs. If two nodes run at the same time, their early
  // blocks can deadlock, just like the early blocks of two devices on one GPU.
  bool alone() const;

 private:
  std::set<int> ordinals_;
};

// The attribute of a launch that may start before the kernel ahead of it in the stream has ended.
// The launch starts as soon as all blocks of that kernel have allowed it, or have ended.
cudaLaunchAttribute early_attribute();

}  // namespace interlace::cuda
