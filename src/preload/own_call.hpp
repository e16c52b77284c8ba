// Functions that every decision about a call of the program needs.
#pragma once

#include <pthread.h>

#include <utility>

#include "cuda/transfer/driver_table.hpp"

namespace interlace::preload {

// Whether this thread is in a call that the engine or the driver makes. Such calls are not calls of
// the program. They can happen inside a call of the program, because the first copy can make the
// engine.
inline constinit thread_local bool in_own_call = false;

class own_call {
 public:
  own_call() = default;
  ~own_call() { in_own_call = before_; }
  own_call(const own_call&) = delete;
  own_call& operator=(const own_call&) = delete;

 private:
  bool before_ = std::exchange(in_own_call, true);
};

// While this object lives, another thread cannot cancel this thread. A thread must not end inside
// the engine.
class without_cancellation {
 public:
  without_cancellation() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~without_cancellation() { pthread_setcancelstate(before_, nullptr); }
  without_cancellation(const without_cancellation&) = delete;
  without_cancellation& operator=(const without_cancellation&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

// The driver, or null if the driver cannot be used. Without a driver, no copy is taken over.
const cuda::driver_table* usable_driver() noexcept;

}  // namespace interlace::preload
