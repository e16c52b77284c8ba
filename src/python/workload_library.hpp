// Workloads in libraries of their own (interlace/run/module.hpp), as the Python modules load them.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <string>

#include "interlace/run/module.hpp"

namespace interlace::python {

class workload_library {
 public:
  // The library stays loaded as long as the process runs: results point into it. Throws usage_error
  // for a file that is not such a library, or is of another version of Interlace.
  explicit workload_library(const std::string& path);

  // Throws what `make` throws, and nanobind::type_error for arguments that `make` does not take.
  // Arrays are used where they are, so `data` must outlive the problem.
  std::unique_ptr<run::module_problem> problem(const nanobind::args& data) const;

 private:
  std::string path_;
  const run::module_description* of_ = nullptr;
};

// Whether a signal handler of Python's raised; then Python's error is set.
bool interrupted() noexcept;

// Throws what a call into a library ended with; with or without the GIL.
void check(const run::outcome& ended);

}  // namespace interlace::python
