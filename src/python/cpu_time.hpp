// The processor time of a run.
#pragma once

#include <sys/resource.h>

namespace interlace::python {

// The processor time of the calling thread so far, in user and system mode.
inline double thread_cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace interlace::python
