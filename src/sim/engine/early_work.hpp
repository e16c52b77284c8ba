// Work whose result a thread needs later. Another thread may do the work in the meantime.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <thread>
#include <utility>

#include "sim/engine/crew.hpp"

namespace interlace::sim {

class early_work {
 public:
  // Offers work to other threads. Returns false, and does nothing, if earlier work has not been
  // finished. `work` must live until finish() returns.
  bool offer(const std::function<void()>& work) {
    if (state_.load(std::memory_order_relaxed) != nothing) return false;
    work_ = &work;
    state_.store(offered);  // before crew::wake() looks for sleeping helpers
    return true;
  }
  bool offer(std::function<void()>&& work) = delete;
  // Does the offered work and returns true. Returns false if there is none. Any thread may call
  // this function at any time.
  bool help() {
    if (!claim()) return false;
    run();
    return true;
  }
  // Returns when the offered work is done. If no other thread has begun the work, this thread does
  // it. Throws the exception that the work threw, if any. Only the thread that made the offer may
  // call this function, after each offer once.
  void finish() {
    if (claim()) run();
    for (std::uint32_t waits = 0; state_.load(std::memory_order_acquire) != done; ++waits) {
      if (waits < 1000) {
        pause_briefly();
      } else {
        std::this_thread::yield();
      }
    }
    state_.store(nothing, std::memory_order_relaxed);
    if (failed_) std::rethrow_exception(std::exchange(failed_, nullptr));
  }

 private:
  enum state : std::uint8_t { nothing, offered, claimed, done };

  bool claim() {
    state expected = offered;
    return state_.load() == offered && state_.compare_exchange_strong(expected, claimed);
  }
  void run() {
    try {
      (*work_)();
    } catch (...) {
      failed_ = std::current_exception();
    }
    state_.store(done, std::memory_order_release);
  }

  std::atomic<state> state_ = nothing;
  const std::function<void()>* work_ = nullptr;
  std::exception_ptr failed_;
};

}  // namespace interlace::sim
