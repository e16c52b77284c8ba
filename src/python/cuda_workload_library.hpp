// Functions of the module _cuda that load workloads from libraries of their own.
#pragma once

#include <nanobind/nanobind.h>

namespace interlace::python {

void bind_workload_library(nanobind::module_& module);

}  // namespace interlace::python
