// Copies over several paths for Python programs, and what measures them: functions of the module
// _cuda, on which interlace/copying.py and copy_bench.py stand.
#pragma once

#include <nanobind/nanobind.h>

namespace interlace::python {

void bind_copies(nanobind::module_& module);

}  // namespace interlace::python
