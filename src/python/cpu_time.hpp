// The processor time of a simulation.
#pragma once

#include <sys/resource.h>

namespace interlace::python {

// Returns the processor time of all threads of this process so far, in user mode and system mode.
// Each simulation has its own process, so this is the time of the simulation.
inline double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace interlace::python
