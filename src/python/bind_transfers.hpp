// Simulated transfers over planned paths, for Python.
#pragma once

#include <nanobind/nanobind.h>

namespace interlace::python {

// Behind bind_plan.
void bind_transfers(nanobind::module_& module);

}  // namespace interlace::python
