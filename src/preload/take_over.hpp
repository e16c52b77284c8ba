// Decides for each copy whether the copy engine makes it, over all paths that help, or whether the
// program's own call makes it. Starts the engine once the program has copied enough.
//
// The engine takes over a copy only if the program cannot tell the difference, and only if several
// paths are predicted to be faster than one. These are the conditions:
// - Both ends are page-locked host memory or memory of a GPU, in two different places.
// - The stream belongs to a primary context and is not being captured.
//
// A copy that is taken over starts after the work that is on the stream, and later work on the
// stream starts after the copy. All other copies are passed through. A copy is also passed through
// if anything fails before the copy is enqueued.
#pragma once

#include <cstddef>
#include <optional>

#include "cuda/transfer/driver_table.hpp"
#include "preload/counters.hpp"

namespace interlace::preload {

struct requested_copy {
  copy_direction moves = copy_direction::unknown;  // direction that the called function states
  cuda::device_address to = 0;
  cuda::device_address from = 0;
  std::size_t bytes = 0;
  CUstream_st* stream = nullptr;  // null means the legacy default stream
};

// Enqueues the copy if it can be taken over. Returns whether the copy is enqueued. If not, the
// caller must make the copy. Counts the copy in both cases.
bool take_over(const requested_copy& asked) noexcept;
// Does the same as `take_over` for a call that returns when the copy is complete. Returns the
// call's result, or no value if the caller must make the copy. Only copies between a GPU and the
// host are taken over, because for other copies the driver does not always wait.
std::optional<int> take_over_waiting(const requested_copy& asked) noexcept;

// Whether the engine has started or is starting. In both cases it enables peer access between the
// GPUs.
bool engine_started() noexcept;
// Ends the engine, before a call that ends its contexts. Returns when the engine's copies are
// complete. Another engine can start later.
void stop_engine() noexcept;

// The context of the calling thread, or null if the thread has none.
CUctx_st* current_context() noexcept;

}  // namespace interlace::preload
