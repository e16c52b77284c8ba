// Measurements of scattered updates, as functions of the module _cuda. `interlace bench updates`
// calls them.
#pragma once

#include <nanobind/nanobind.h>

namespace interlace::python {

void bind_updates(nanobind::module_& module);

}  // namespace interlace::python
