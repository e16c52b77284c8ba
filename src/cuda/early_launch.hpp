// Launches that start before the work that they depend on has ended, which hides the time of the
// launch: programmatic dependent launch. The kernel waits for that work itself, by
// device::await_prerequisites.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <set>
#include <vector>

namespace interlace::cuda {

// Whether a kernel whose source calls await_prerequisites really waits there: it must have been
// compiled for a GPU that supports this.
bool awaits_prerequisites(const cudaFuncAttributes& kernel);

// Bit d: graphs of device d on GPU ordinals[d] may have such launches. No bit is set if a GPU
// stands for several devices: blocks that wait for one device's exchange would take the places of
// another device's kernel, for which that exchange waits.
std::uint32_t early_devices(const std::vector<int>& ordinals);

// A `node` of this process on its GPUs, registered as long as it lives.
class gpu_tenant {
 public:
  explicit gpu_tenant(const std::vector<int>& ordinals);
  ~gpu_tenant();
  gpu_tenant(const gpu_tenant&) = delete;
  gpu_tenant& operator=(const gpu_tenant&) = delete;
  gpu_tenant(gpu_tenant&&) = delete;
  gpu_tenant& operator=(gpu_tenant&&) = delete;

  // Whether no other node uses one of these GPUs. Two nodes with early launches that run at the
  // same time would take each other's places, as devices of one GPU do.
  bool alone() const;

 private:
  std::set<int> ordinals_;
};

// The attribute of a launch that may start early, after a kernel in the same stream: as soon as all
// blocks of that kernel have allowed the next launch, or have ended.
cudaLaunchAttribute early_attribute();

}  // namespace interlace::cuda
