// Threads that help the thread of a simulation. They call one function repeatedly while the
// simulation runs, and sleep when the function finds no work.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace interlace::sim {

class crew {
 public:
  // Starts `helpers` threads. `help` does one piece of work and returns true, or returns false if
  // there is no work. `help` gets the number of the calling helper, counted from 0, and must not
  // throw.
  crew(std::uint32_t helpers, std::function<bool(std::uint32_t helper)> help);
  // Waits until the pieces of work that have begun are done.
  ~crew();
  crew(const crew&) = delete;
  crew& operator=(const crew&) = delete;

  // Tells the helpers that there may be work. The call costs little while no helper sleeps.
  void wake() {
    if (sleeping_.load() != 0) wake_sleeping();
  }

 private:
  void wake_sleeping();
  void run(std::uint32_t helper);

  // The number of times that a helper looks for work in vain before it sleeps. These looks take
  // about 20 microseconds.
  static constexpr std::uint32_t looks = 400;

  std::function<bool(std::uint32_t)> help_;
  std::atomic<bool> ended_ = false;
  std::atomic<std::uint32_t> calls_ = 0;  // number of calls of wake_sleeping
  std::atomic<std::uint32_t> sleeping_ = 0;
  std::vector<std::jthread> threads_;
};

// Tells the processor that this thread waits for another thread.
inline void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace interlace::sim
