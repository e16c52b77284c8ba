// The memory of a node's arrays, regions and reductions, and copies to and from this memory.
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

// All functions of this class block until the node is idle. They throw model_error during a
// recording.
class node_arrays {
 public:
  explicit node_arrays(const node_gpus& gpus) : gpus_(gpus) {}

  void* take(std::uint32_t device, std::uint64_t bytes);
  void* take_unified(std::uint64_t bytes, const kernel::page_placement& pages);
  void write(void* to, const void* from, std::uint64_t bytes);
  void read(void* to, const void* from, std::uint64_t bytes) const;
  // The memory that take() has returned for a device so far.
  const std::vector<memory_range>& ranges(std::uint32_t device) const { return taken_[device]; }

 private:
  const node_gpus& gpus_;
  device_memory memory_;
  std::array<std::vector<memory_range>, max_devices> taken_;  // memory that take() returned
  unified_memory unified_;
};

}  // namespace interlace::cuda
