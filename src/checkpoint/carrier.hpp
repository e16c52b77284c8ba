// The interface that moves chunks between page-locked memory and GPUs. The copy engine implements
// it. Tests use a stand-in.
#pragma once

#include <cstdint>
#include <span>

#include "checkpoint/layout.hpp"

namespace interlace::checkpoint {

// Moves chunks through slots of page-locked memory. Each slot holds one chunk. Several threads may
// call at the same time, for different slots.
class carrier {
 public:
  carrier() = default;
  virtual ~carrier() = default;
  carrier(const carrier&) = delete;
  carrier& operator=(const carrier&) = delete;

  virtual std::uint32_t slots() const = 0;
  virtual std::uint64_t slot_bytes() const = 0;
  // Announces the number of slots that will be used, so that the memory of all slots can be made
  // together.
  virtual void expect(std::uint32_t /*slots*/) {}
  // The memory of a slot, for a chunk of GPU `gpu`. The first call for a slot can take a long time.
  // Throws device_error.
  virtual char* slot(std::uint32_t number, int gpu) = 0;

  // `send` enqueues copies of a chunk's parts from the slot to the parts' addresses. `fetch`
  // enqueues copies in the other direction. Both functions return without waiting, and throw
  // device_error. All earlier copies of the slot must be complete. After an error, no copy of the
  // call is in flight, unless the slots are abandoned.
  virtual void send(std::uint32_t slot, std::span<const part> parts) = 0;
  virtual void fetch(std::uint32_t slot, std::span<const part> parts) = 0;
  // Whether all copies that were enqueued for the slot are complete. Does not block. Throws
  // device_error.
  virtual bool done(std::uint32_t slot) = 0;
  // Abandons the slots. The caller calls this function if copies may still be in flight after a
  // deadline. Nothing may use the slots afterwards.
  virtual void abandon() noexcept = 0;
};

}  // namespace interlace::checkpoint
