// Puts operations on the streams of the devices, or into graphs while these capture.
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

  // `watch`: null where nothing is timed but the whole.
  void issue(const operation& o, stopwatch* watch);
  // The launch alone; its device is the current one.
  void issue_kernel(std::uint32_t device, const kernel_operation& k);
  // What a library launches is known to it alone: its kernels are loaded by capturing the call into
  // a graph that is thrown away.
  void load_call(const operation& o);

  // Around what graphs of all devices capture: there launches may come early.
  void begin_graphs();
  void end_graphs() { early_now_ = 0; }
  // Kernels and exchanges that were launched early since the last reset.
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
  void issue_exchange(std::uint32_t device, const exchange_operation& e, cudaEvent_t computed,
                      stopwatch* watch);

  const node_gpus& gpus_;
  const loaded_kernels& kernels_;
  // Of launches that come early; bit d is device d's.
  std::uint32_t early_now_ = 0;      // have them, in the graphs that are being captured
  std::uint32_t behind_kernel_ = 0;  // the last on the main stream is a kernel or an exchange
  std::uint64_t early_launches_ = 0;
};

}  // namespace interlace::cuda
