// Enqueues operations on the streams of the devices. While the streams are capturing, the
// operations go into graphs.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <vector>

#include "cuda/epoch/gpus.hpp"
#include "cuda/epoch/kernels.hpp"
#include "cuda/epoch/operation.hpp"
#include "cuda/epoch/stopwatch.hpp"

namespace interlace::cuda {

class issuer {
 public:
  issuer(const node_gpus& gpus, const loaded_kernels& kernels) : gpus_(gpus), kernels_(kernels) {}

  // Enqueues an operation. If only the total time is measured, `watch` is null.
  void issue(const operation& o, stopwatch* watch);
  // Enqueues only the launch of a kernel. The launch's device must be the current one.
  void issue_kernel(std::uint32_t device, const kernel_operation& k);
  // Enqueues the transfers that the device sends before it meets the other devices. If the run is
  // watched, `computed` is an event before the exchange, and the function returns an event after
  // the transfers.
  cudaEvent_t issue_transfers(std::uint32_t device, const exchange_operation& e,
                              cudaEvent_t computed, stopwatch* watch);
  void issue_meeting(std::uint32_t device, const exchange_operation& e, cudaEvent_t copied,
                     stopwatch* watch);
  // Loads the kernels of a library call. Only the library knows which kernels these are. The call
  // is therefore captured into a graph, and the graph is then discarded.
  void load_call(const operation& o);

  // Call begin_graphs before the graphs of all devices are captured, and call end_graphs
  // afterwards. Launches that are captured between the two calls may start early.
  void begin_graphs();
  void end_graphs() { early_now_ = 0; }
  // The number of kernels and exchanges that were launched early since the last reset.
  std::uint64_t early_launches() const { return early_launches_; }
  void reset_early_launches() { early_launches_ = 0; }

  const loaded_kernels& kernels() const { return kernels_; }

 private:
  bool comes_early(std::uint32_t device) const;
  void set_behind_kernel(std::uint32_t device, bool is);
  void issue_call(std::uint32_t device, const kernel::library_call& c);
  void issue_copies(std::uint32_t device, const std::vector<copy_operation>& copies,
                    const char* name, stopwatch* watch);
  void issue_joint(const joint_delivery& j, stopwatch* watch);

  const node_gpus& gpus_;
  const loaded_kernels& kernels_;
  // The devices whose graphs are being captured and may have early launches. Bit d stands for
  // device d.
  std::uint32_t early_now_ = 0;
  // The devices whose last work on the main stream is a kernel or an exchange. Bit d stands for
  // device d.
  std::uint32_t behind_kernel_ = 0;
  std::uint64_t early_launches_ = 0;
};

}  // namespace interlace::cuda
