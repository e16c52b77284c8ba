// The ring of page-locked memory through which checkpoints go to GPUs and back. The process keeps
// one idle ring, so that memory is page-locked only once. src/cuda implements the ring.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "checkpoint/carrier.hpp"

namespace interlace::checkpoint {

// The number of GPUs that the process sees. Throws usage_error if there is no NVIDIA driver.
std::uint32_t visible_gpus();

// Gives one transfer exclusive use of the ring.
class gpu_ring {
 public:
  // Takes the idle ring if it has this number and size of slots, and if its copies take the same
  // paths. Otherwise makes a new ring. Other GPUs relay copies, unless that could take more than
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
