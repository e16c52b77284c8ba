// Saves the contents of all regions and reductions, and restores them.
#pragma once

#include <cstdint>
#include <vector>

#include "cuda/epoch/regions.hpp"
#include "interlace/cuda/memory/memory.hpp"

namespace interlace::cuda {

class snapshot {
 public:
  snapshot(const node_gpus& gpus, const node_arrays& arrays, const node_regions& regions);
  void restore() const;

 private:
  struct part {
    std::uint32_t device;
    void* original;
    void* copy;
    std::uint64_t bytes;
  };
  void keep(std::uint32_t device, void* data, std::uint64_t bytes);

  const node_gpus& gpus_;
  const node_arrays& arrays_;
  device_memory memory_;
  std::vector<part> parts_;
};

}  // namespace interlace::cuda
