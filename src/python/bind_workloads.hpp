// The functions of a Python module that run workloads.
#pragma once

#include <nanobind/nanobind.h>

namespace interlace::python {

// Adds a function for each workload. The build generates one definition of this function for _core
// and another one for _cuda.
void bind_workloads(nanobind::module_& module);

}  // namespace interlace::python
