// Arrays whose pages are distributed over several GPUs. All GPUs access a page at the same address.
#pragma once

#include <cstdint>
#include <vector>

#include "interlace/kernel/placement.hpp"

namespace interlace::cuda {

// Memory of the driver's virtual memory management. The program looks up the driver's functions at
// run time, so it does not link libcuda. The memory lives as long as its owner. The caller must
// ensure that no kernel runs when the owner is destroyed.
class unified_memory {
 public:
  // The size of a page. Pages are larger if the driver allocates only in larger pieces.
  static constexpr std::uint64_t page_bytes = std::uint64_t{2} << 20U;

  unified_memory() = default;
  ~unified_memory();
  unified_memory(const unified_memory&) = delete;
  unified_memory& operator=(const unified_memory&) = delete;
  unified_memory(unified_memory&&) = delete;
  unified_memory& operator=(unified_memory&&) = delete;

  // Allocates an array. Page k is on GPU ordinals[k % size], or on the GPU that `pages` gives.
  // Every GPU of `ordinals` can read and write all pages. Peer access between the GPUs must be
  // possible. Every byte starts as 0xff. Returns nullptr for 0 bytes. Throws device_error if a
  // GPU's memory is full. The error names the GPU.
  void* take(const std::vector<int>& ordinals, std::uint64_t bytes,
             const kernel::page_placement& pages);

 private:
  struct allocation {
    std::uint64_t address;  // the driver's type for addresses
    std::uint64_t reserved;
    std::uint64_t mapped;
  };
  static void release(const allocation& a) noexcept;

  std::vector<allocation> allocations_;
};

}  // namespace interlace::cuda
