// Launches that start before the work on which they depend has ended (programmatic dependent
// launch). An early start hides the time of the launch. The kernel itself waits for the earlier
// work, by device::await_prerequisites.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <set>
#include <vector>

namespace interlace::cuda {

// Whether await_prerequisites really waits in this kernel. It waits only if the kernel was compiled
// for a GPU that supports early launches.
bool awaits_prerequisites(const cudaFuncAttributes& kernel);

// The devices whose graphs may have early launches. Device d is on GPU ordinals[d], and bit d
// stands for device d. No bit is set if several devices share a GPU. The early blocks of one device
// could otherwise fill the multiprocessors and wait for an exchange. The exchange would wait for
// another device's kernel, and that kernel would find no room: a deadlock.
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

// The attribute of an early launch. The launch may start before the previous kernel in the stream
// has ended. It starts as soon as all blocks of the previous kernel have allowed it or have ended.
cudaLaunchAttribute early_attribute();

}  // namespace interlace::cuda
