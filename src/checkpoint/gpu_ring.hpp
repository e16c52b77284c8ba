// The ring of page-locked memory through which checkpoints go to GPUs and back. The process keeps
// one idle ring, so that the memory is page-locked only once. src/cuda defines it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "checkpoint/carrier.hpp"

namespace interlace::checkpoint {

// How many GPUs the process sees. Throws usage_error if there is no NVIDIA driver.
std::uint32_t visible_gpus();

// Exclusive use of the ring for one transfer.
class gpu_ring {
 public:
  // Takes the idle ring if it has this number and size of slots and its copies take the same paths.
  // Otherwise makes a new ring. Other GPUs relay copies, unless that could take more than
  // `most_staging` bytes of a GPU. Throws usage_error if there is no NVIDIA driver.
  gpu_ring(std::uint32_t slots, std::uint64_t slot_bytes,
           std::optional<std::uint64_t> most_staging = std::nullopt);
  ~gpu_ring();
  gpu_ring(const gpu_ring&) = delete;
  gpu_ring& operator=(const gpu_ring&) = delete;

  carrier& slots() const;

 private:
  struct held;
  std::unique_ptr<held> held_;
};

}  // namespace interlace::checkpoint
