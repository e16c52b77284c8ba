// Launches that come before what they depend on has ended, so that their own time passes meanwhile:
// programmatic dependent launch. The kernel waits itself, by device::await_prerequisites.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <set>
#include <vector>

namespace interlace::cuda {

// Whether a kernel whose source calls await_prerequisites waits there: it was compiled for a GPU
// that can.
bool awaits_prerequisites(const cudaFuncAttributes& kernel);

// Bit d: graphs of device d on GPU ordinals[d] may have such launches. No device's, if a GPU stands
// for several: blocks that wait for one device's exchange would take the places of another's
// kernel, which that exchange waits for.
std::uint32_t early_devices(const std::vector<int>& ordinals);

// A `node` of this process on its GPUs, as long as it lives.
class gpu_tenant {
 public:
  explicit gpu_tenant(const std::vector<int>& ordinals);
  ~gpu_tenant();
  gpu_tenant(const gpu_tenant&) = delete;
  gpu_tenant& operator=(const gpu_tenant&) = delete;
  gpu_tenant(gpu_tenant&&) = delete;
  gpu_tenant& operator=(gpu_tenant&&) = delete;

  // Whether no other one has one of its GPUs: two that run at the same time, both with early
  // launches, would take each other's places as devices of one GPU do.
  bool alone() const;

 private:
  std::set<int> ordinals_;
};

// Of a launch that may come early behind a kernel in the same stream: once all its blocks have let
// the next one be launched, or have ended.
cudaLaunchAttribute early_attribute();

}  // namespace interlace::cuda
