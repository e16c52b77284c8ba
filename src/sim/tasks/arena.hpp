// The memory of simulated devices. One range of addresses is reserved, and each device has a slot
// in it. Device addresses are therefore the same in every run, and an address tells which device
// owns it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace interlace::sim {

class arena {
 public:
  explicit arena(std::uint32_t slots);
  ~arena();
  arena(const arena&) = delete;
  arena& operator=(const arena&) = delete;

  // The number of threads that take() uses, at least one.
  void use_threads(std::uint32_t threads) { threads_ = threads; }
  // Allocates `bytes` bytes in a slot. The memory is aligned to 256 bytes, and every byte is set to
  // 0xff.
  std::byte* take(std::uint32_t slot, std::uint64_t bytes);
  // The number of used bytes, counted from the start of the slot.
  std::uint64_t used(std::uint32_t slot) const { return used_[slot]; }
  const std::byte* base() const { return base_; }
  std::uint32_t slot_bits() const { return slot_bits_; }
  std::uint64_t address(const void* p) const {
    return static_cast<std::uint64_t>(static_cast<const std::byte*>(p) - base_);
  }

 private:
  std::byte* base_ = nullptr;
  std::uint64_t reserved_ = 0;
  std::uint32_t slot_bits_ = 0;
  std::uint32_t threads_ = 1;
  std::vector<std::uint64_t> used_;
};

}  // namespace interlace::sim
