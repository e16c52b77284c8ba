// Copies over several paths for Python programs, and measurements of such copies. These are
// functions of the module _cuda, which interlace/copying.py and copy_bench.py use.
#pragma once

#include <nanobind/nanobind.h>

namespace interlace::python {

void bind_copies(nanobind::module_& module);

}  // namespace interlace::python
