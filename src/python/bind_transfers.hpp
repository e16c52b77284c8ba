// Python bindings of simulated transfers over planned paths.
#pragma once

#include <nanobind/nanobind.h>

namespace interlace::python {

// Adds the functions. Call this function after bind_plan.
void bind_transfers(nanobind::module_& module);

}  // namespace interlace::python
