// The ring of page-locked memory through which checkpoints go to GPUs and back. It is the process's
// one, so that memory is page-locked once; src/cuda defines it.
#pragma once

#include <cstdint>
#include <memory>

#include "checkpoint/carrier.hpp"

namespace interlace::checkpoint {

// The ring, for one transfer.
class gpu_ring {
 public:
  // Waits until no other transfer has it. Slots stay as they were made by the last one that asked
  // for as many and as large ones. Throws usage_error where there is no NVIDIA driver.
  gpu_ring(std::uint32_t slots, std::uint64_t slot_bytes);
  ~gpu_ring();
  gpu_ring(const gpu_ring&) = delete;
  gpu_ring& operator=(const gpu_ring&) = delete;

  carrier& slots() const;

 private:
  struct held;
  std::unique_ptr<held> held_;
};

}  // namespace interlace::checkpoint
