// Decides for each copy whether the copy engine makes it, over all paths that help, or whether it
// stays the program's own call. Starts the engine once the program has copied enough.
//
// The engine takes over a copy if the program cannot tell the difference and if several paths are
// predicted to be faster than one. The conditions:
// - Both ends are page-locked memory of the host or memory of a GPU, in two different places.
// - The stream belongs to a primary context and is not being captured.
// The copy starts after the work that the stream has, and later work on the stream starts after the
// copy. All other copies are passed through, and so is a copy for which anything fails before
// it was enqueued.
#pragma once

#include <cstddef>
#include <optional>

#include "cuda/transfer/driver_table.hpp"
#include "preload/counters.hpp"

namespace interlace::preload {

struct requested_copy {
  copy_direction moves = copy_direction::unknown;  // the direction, as the called function says
  cuda::device_address to = 0;
  cuda::device_address from = 0;
  std::size_t bytes = 0;
  CUstream_st* stream = nullptr;  // null: the legacy default stream
};

// Whether the copy is enqueued. If not, the caller must make it. Counts the copy in both cases.
bool take_over(const requested_copy& asked) noexcept;
// The same for a call that returns when the copy is complete. Returns the call's result, or nothing
// if the caller must make the copy. Only copies between a GPU and the host are taken over, because
// for other copies the driver does not always wait.
std::optional<int> take_over_waiting(const requested_copy& asked) noexcept;

// Whether the engine has started or is starting. Then it enables peer access between the GPUs.
bool engine_started() noexcept;
// Ends the engine, before a call that ends its contexts. Returns when its copies are complete.
// Another engine can start later.
void stop_engine() noexcept;

// The context of the calling thread; null if it has none.
CUctx_st* current_context() noexcept;

}  // namespace interlace::preload
