// Workloads in separate libraries (interlace/run/module.hpp), as the Python modules load them.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <string>

#include "interlace/run/module.hpp"

namespace interlace::python {

class workload_library {
 public:
  // Loads a library. The library stays loaded until the process ends, because results point into
  // the library. Throws usage_error if the file is not the library of a workload, or if the library
  // was built for another version of Interlace.
  explicit workload_library(const std::string& path);

  // Makes a problem. Throws the errors of `make`, and nanobind::type_error for arguments that
  // `make` does not take. Arrays are not copied, so `data` must outlive the problem.
  std::unique_ptr<run::module_problem> problem(const nanobind::args& data) const;

 private:
  std::string path_;
  const run::module_description* of_ = nullptr;
};

// Returns whether a Python signal handler raised an exception. If so, Python's error is set.
bool interrupted() noexcept;

// Throws the error with which a call into a library ended, if there is one. The caller may call
// this function with or without the GIL.
void check(const run::outcome& ended);

}  // namespace interlace::python
