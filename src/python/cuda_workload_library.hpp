// Functions of the module _cuda that load workloads from separate libraries.
#pragma once

#include <nanobind/nanobind.h>

namespace interlace::python {

void bind_workload_library(nanobind::module_& module);

}  // namespace interlace::python
