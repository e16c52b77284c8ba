// The interface that moves chunks between page-locked memory and GPUs. The copy engine implements
// it, and so does a stand-in for tests.
#pragma once

#include <cstdint>
#include <span>

#include "checkpoint/layout.hpp"

namespace interlace::checkpoint {

// Slots of page-locked memory; each holds one chunk. Several threads may call at the same time, for
// different slots.
class carrier {
 public:
  carrier() = default;
  virtual ~carrier() = default;
  carrier(const carrier&) = delete;
  carrier& operator=(const carrier&) = delete;

  virtual std::uint32_t slots() const = 0;
  virtual std::uint64_t slot_bytes() const = 0;
  // The memory of a slot, for a chunk of GPU `gpu`. The first request for a slot can take long.
  // Throws device_error.
  virtual char* slot(std::uint32_t number, int gpu) = 0;

  // Enqueue copies of a chunk's parts from the slot to their addresses, or in the other direction,
  // without waiting. All earlier copies of the slot must be complete. Throw device_error. After an
  // error no copy of the call is in flight, unless the slots are abandoned.
  virtual void send(std::uint32_t slot, std::span<const part> parts) = 0;
  virtual void fetch(std::uint32_t slot, std::span<const part> parts) = 0;
  // Whether all copies enqueued for the slot are complete. Does not block. Throws device_error.
  virtual bool done(std::uint32_t slot) = 0;
  // Called when copies may still be in flight after a deadline: the slots must not be used again.
  virtual void abandon() noexcept = 0;
};

}  // namespace interlace::checkpoint
