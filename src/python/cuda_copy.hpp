// Copies over several paths for Python programs, and measurements of them: functions of the module
// _cuda that interlace/copying.py and copy_bench.py use.
#pragma once

#include <nanobind/nanobind.h>

namespace interlace::python {

void bind_copies(nanobind::module_& module);

}  // namespace interlace::python
