// Decides of each copy whether the copy engine carries it, over all the wires that help, or whether
// it stays the program's own call; and starts the engine when it is worth it.
//
// A copy is taken over where that is the same to the program: page-locked memory of the host and
// memory of GPUs, two different places of them, a stream of a primary context that is not being
// captured. The engine begins behind what the stream was given before and ends before what it is
// given later, and it predicts that several paths are faster than one. All else is passed through,
// and so is everything when anything fails before the copy was enqueued.
#pragma once

#include <cstddef>

#include "cuda/transfer/driver_table.hpp"
#include "preload/counters.hpp"

namespace interlace::preload {

struct asked_copy {
  direction way = direction::unknown;  // what the called function says of it
  cuda::device_address to = 0;
  cuda::device_address from = 0;
  std::size_t bytes = 0;
  CUstream_st* stream = nullptr;  // null: the legacy default stream
};

// Whether the copy is enqueued; if not, the caller makes it. Counts it either way.
bool take_over(const asked_copy& asked) noexcept;
// Counts a copy whose call waits for it.
void pass_now(direction way, std::size_t bytes) noexcept;

// Whether the engine is there, or about to be: then GPUs reach each other's memory by its doing.
bool engine_started() noexcept;
// Ends the engine, ahead of a call that takes its contexts away. Returns when its copies are
// complete; another one may start later.
void stop_engine() noexcept;

// The calling thread's; null where there is none.
CUctx_st* current_context() noexcept;

}  // namespace interlace::preload
