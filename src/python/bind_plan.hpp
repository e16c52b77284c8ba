// Python bindings of plans.
#pragma once

#include <nanobind/nanobind.h>

namespace interlace::python {

void bind_plan(nanobind::module_& module);

}  // namespace interlace::python
