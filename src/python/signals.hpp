// Handles signals during long calls of a module.
#pragma once

#include <nanobind/nanobind.h>

namespace interlace::python {

// Runs pending Python signal handlers. If a handler raises an exception, such as KeyboardInterrupt
// for Ctrl-C, this function throws the exception.
inline void check_signals() {
  const nanobind::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() != 0) throw nanobind::python_error();
}

}  // namespace interlace::python
