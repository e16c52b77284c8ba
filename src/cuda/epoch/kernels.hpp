// The kernels that a node has loaded, and the properties of these kernels.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "cuda/epoch/gpus.hpp"
#include "interlace/cuda/epoch/kernel_operation.hpp"

namespace interlace::cuda {

class loaded_kernels {
 public:
  struct properties {
    int most_threads = 0;
    std::uint32_t shared_bytes = 0;
    // Percentage of a multiprocessor's shared memory that all blocks on the multiprocessor use.
    unsigned int shared_percent = 0;
    bool awaits = false;          // whether the kernel itself waits for the previous work
    std::uint32_t registers = 0;  // registers of each thread
    std::uint32_t fixed_shared_bytes = 0;
  };

  explicit loaded_kernels(const node_gpus& gpus) : gpus_(gpus) {}

  // Loads a kernel on all devices. All devices must be idle. Loading may wait for work that runs on
  // a device. An exchange that runs on the device may in turn wait for work that the host has not
  // enqueued yet.
  void load(const kernel_operation& k);
  // The properties of a kernel. The kernel must be loaded.
  const properties& of(std::uint32_t device, const kernel_operation& k) const {
    return loaded_.at({gpus_.ordinal(device), k.entry});
  }

 private:
  const node_gpus& gpus_;
  std::map<std::pair<int, const void*>, properties> loaded_;
};

}  // namespace interlace::cuda
