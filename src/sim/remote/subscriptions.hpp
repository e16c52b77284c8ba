// GPS's subscriptions (Muthukrishnan et al., MICRO 2021) for one region. The subscriptions say
// which devices hold an up-to-date replica of each page.
//
// At first, all devices that a region names hold every page. The first epoch in which the region is
// read shows which pages each device reads. (GPS calls this its profiling phase. A program brackets
// the phase with calls, and TLB misses track the pages.) The exchange after that epoch ends the
// subscriptions of devices that did not read a page. After this exchange, stores no longer go to
// these devices. A device can later load from a page to which it has no subscription. In this case,
// the device loads a line at a time from the owner's memory, and does not subscribe again.
//
// The program's results are the same as if stores went to all devices, because values are computed
// on replicas that are always up to date. Only the traffic and the cost of loads are those of GPS.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

#include "interlace/base/limits.hpp"
#include "interlace/sim/gpu/subscribed_pages.hpp"

namespace interlace::sim {

class subscriptions final : public subscribed_pages {
 public:
  // For each device, `buffers` has the device addresses of the region's two buffers.
  subscriptions(std::uint64_t page_bytes, std::uint32_t element_bytes,
                std::vector<std::uint64_t> boundaries,
                std::array<std::array<std::uint64_t, 2>, max_devices> buffers)
      : page_bytes_(page_bytes),
        element_bytes_(element_bytes),
        boundaries_(std::move(boundaries)),
        buffers_(buffers),
        readers_((boundaries_.back() * element_bytes + page_bytes - 1) / page_bytes, 0) {}

  bool load(std::uint32_t device, std::uint64_t element) override {
    if (profiling_) {
      // Recorders of several devices may call this function at the same time.
      const std::atomic_ref<std::uint32_t> readers(readers_[page(element)]);
      const std::uint32_t bit = 1U << device;
      if ((readers.load(std::memory_order_relaxed) & bit) == 0) {
        readers.fetch_or(bit, std::memory_order_relaxed);
        read_.store(true, std::memory_order_relaxed);
      }
      return true;
    }
    return receives(device, element) || owner(element) == device;
  }
  bool receives(std::uint32_t device, std::uint64_t element) const override {
    return profiling_ || (readers_[page(element)] >> device & 1U) != 0;
  }
  std::uint64_t at_owner(std::uint32_t device, std::uint64_t element,
                         std::uint64_t address) const override {
    const std::uint64_t offset = element * element_bytes_;
    const std::size_t buffer = address == buffers_[device][0] + offset ? 0 : 1;
    return buffers_[owner(element)][buffer] + offset;
  }
  void end_epoch() override { profiling_ = profiling_ && !read_; }

 private:
  std::size_t page(std::uint64_t element) const {
    return static_cast<std::size_t>(element * element_bytes_ / page_bytes_);
  }
  std::uint32_t owner(std::uint64_t element) const {
    const auto above = std::upper_bound(boundaries_.begin(), boundaries_.end(), element);
    return static_cast<std::uint32_t>(above - boundaries_.begin()) - 1;
  }

  std::uint64_t page_bytes_;
  std::uint32_t element_bytes_;
  std::vector<std::uint64_t> boundaries_;
  std::array<std::array<std::uint64_t, 2>, max_devices> buffers_;
  std::vector<std::uint32_t> readers_;  // for each page, one bit for each device that has read it
  bool profiling_ = true;
  std::atomic<bool> read_ = false;
};

}  // namespace interlace::sim
