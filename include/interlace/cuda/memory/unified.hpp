// Arrays whose pages are distributed over several GPUs. All GPUs access a page at the same address.
#pragma once

#include <cstdint>
#include <vector>

#include "interlace/kernel/placement.hpp"

namespace interlace::cuda {

// Uses the driver's virtual memory management. Its functions are looked up at run time, so that
// nothing links libcuda. The memory lives as long as its owner, which must ensure that no kernel is
// running when it ends.
class unified_memory {
 public:
  // Size of a page; larger if a driver allocates in larger pieces.
  static constexpr std::uint64_t page_bytes = std::uint64_t{2} << 20U;

  unified_memory() = default;
  ~unified_memory();
  unified_memory(const unified_memory&) = delete;
  unified_memory& operator=(const unified_memory&) = delete;
  unified_memory(unified_memory&&) = delete;
  unified_memory& operator=(unified_memory&&) = delete;

  // Allocates an array. Page k is on GPU ordinals[k % size], or where `pages` says. Every GPU of
  // `ordinals` can read and write all pages; peer access between the GPUs must be possible. Every
  // byte is 0xff; nullptr for 0 bytes. Throws device_error that names the GPU whose memory is full.
  void* take(const std::vector<int>& ordinals, std::uint64_t bytes,
             const kernel::page_placement& pages);

 private:
  struct allocation {
    std::uint64_t address;  // in the driver's type
    std::uint64_t reserved;
    std::uint64_t mapped;
  };
  static void release(const allocation& a) noexcept;

  std::vector<allocation> allocations_;
};

}  // namespace interlace::cuda
