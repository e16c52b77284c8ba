// The kernels that a node has loaded, and their properties.
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
    unsigned int shared_percent = 0;  // used by all blocks of a multiprocessor together
    bool awaits = false;              // the kernel itself waits for the work before it
    std::uint32_t registers = 0;      // per thread
    std::uint32_t fixed_shared_bytes = 0;
  };

  explicit loaded_kernels(const node_gpus& gpus) : gpus_(gpus) {}

  // Loads a kernel on all devices while all of them are idle. Loading may wait for work that runs
  // on a device, and an exchange that runs there may wait for work that the host has yet to
  // enqueue.
  void load(const kernel_operation& k);
  // Properties of a kernel. It must be loaded.
  const properties& of(std::uint32_t device, const kernel_operation& k) const {
    return loaded_.at({gpus_.ordinal(device), k.entry});
  }

 private:
  const node_gpus& gpus_;
  std::map<std::pair<int, const void*>, properties> loaded_;
};

}  // namespace interlace::cuda
