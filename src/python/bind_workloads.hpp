// The workloads of an extension module.
#pragma once

#include <nanobind/nanobind.h>

namespace interlace::python {

// Adds a function for each workload. The build makes the definition, for _core as for _cuda.
void bind_workloads(nanobind::module_& module);

}  // namespace interlace::python
