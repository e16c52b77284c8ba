// Python bindings of simulated transfers over planned paths.
#pragma once

#include <nanobind/nanobind.h>

namespace interlace::python {

// Adds the functions to the module. The caller must call bind_plan first.
void bind_transfers(nanobind::module_& module);

}  // namespace interlace::python
