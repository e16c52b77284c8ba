// What moves chunks between page-locked memory and GPUs: the copy engine, or a stand-in.
#pragma once

#include <cstdint>
#include <span>

#include "checkpoint/layout.hpp"

namespace interlace::checkpoint {

// Slots of page-locked memory, each of which holds one chunk. Calls for different slots may come
// from several threads at once.
class carrier {
 public:
  carrier() = default;
  virtual ~carrier() = default;
  carrier(const carrier&) = delete;
  carrier& operator=(const carrier&) = delete;

  virtual std::uint32_t slots() const = 0;
  virtual std::uint64_t slot_bytes() const = 0;
  // The memory of a slot, for a chunk of that GPU. May take long when it is asked for the first
  // time. Throws device_error.
  virtual char* slot(std::uint32_t number, int gpu) = 0;

  // Enqueues copies of a chunk's parts from the slot to their addresses, or the other way, and does
  // not wait for them. What an earlier call enqueued for the slot is complete. Throw device_error;
  // then nothing of it is under way, or the slots are abandoned.
  virtual void send(std::uint32_t slot, std::span<const part> parts) = 0;
  virtual void fetch(std::uint32_t slot, std::span<const part> parts) = 0;
  // Whether all that was enqueued for the slot is complete; does not wait. Throws device_error.
  virtual bool done(std::uint32_t slot) = 0;
  // Copies may still be under way after a deadline: the slots are not to be used again.
  virtual void abandon() noexcept = 0;
};

}  // namespace interlace::checkpoint
