// Regions for kernels of Python programs: the classes Group and Region of the module _cuda.
// interlace/runtime/regions.py uses them.
#pragma once

#include <nanobind/nanobind.h>

namespace interlace::python {

void bind_regions(nanobind::module_& module);

}  // namespace interlace::python
