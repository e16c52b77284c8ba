// The memory of a node's arrays, regions and reductions, and the way into it and back.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "interlace/base/limits.hpp"
#include "interlace/cuda/memory/memory.hpp"
#include "interlace/cuda/memory/unified.hpp"
#include "interlace/kernel.hpp"

namespace interlace::cuda {

class node_gpus;

struct memory_range {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

// All of it waits until the node is idle, and throws model_error within a recording.
class node_arrays {
 public:
  explicit node_arrays(const node_gpus& gpus) : gpus_(gpus) {}

  void* take(std::uint32_t device, std::uint64_t bytes);
  void* take_unified(std::uint64_t bytes, const kernel::page_placement& pages);
  void write(void* to, const void* from, std::uint64_t bytes);
  void read(void* to, const void* from, std::uint64_t bytes) const;
  // What take has given of a device's memory so far.
  const std::vector<memory_range>& ranges(std::uint32_t device) const { return taken_[device]; }

 private:
  const node_gpus& gpus_;
  device_memory memory_;
  std::array<std::vector<memory_range>, max_devices> taken_;  // of it
  unified_memory unified_;
};

}  // namespace interlace::cuda
