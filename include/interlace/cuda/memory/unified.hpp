// Arrays whose pages lie on several GPUs in turn, each reached by all of them at the same address.
#pragma once

#include <cstdint>
#include <vector>

#include "interlace/kernel/placement.hpp"

namespace interlace::cuda {

// Virtual memory management of the driver, whose functions are looked up at run time, so that
// nothing links libcuda. Lives as long as its owner, which lets no kernel run on when it ends.
class unified_memory {
 public:
  // Of a page; more where a driver allocates in larger pieces.
  static constexpr std::uint64_t page_bytes = std::uint64_t{2} << 20U;

  unified_memory() = default;
  ~unified_memory();
  unified_memory(const unified_memory&) = delete;
  unified_memory& operator=(const unified_memory&) = delete;
  unified_memory(unified_memory&&) = delete;
  unified_memory& operator=(unified_memory&&) = delete;

  // Page k of the array lies on GPU ordinals[k % size], or where `pages` says; every GPU of
  // `ordinals`, between which peer access is possible, may read and write all of them. Every byte
  // is 0xff on return; nullptr for 0 bytes. Throws device_error, which names the GPU whose memory
  // is full if one is.
  void* take(const std::vector<int>& ordinals, std::uint64_t bytes,
             const kernel::page_placement& pages);

 private:
  struct allocation {
    std::uint64_t address;  // as the driver writes it
    std::uint64_t reserved;
    std::uint64_t mapped;
  };
  static void release(const allocation& a) noexcept;

  std::vector<allocation> allocations_;
};

}  // namespace interlace::cuda
