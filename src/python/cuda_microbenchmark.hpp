// Microbenchmarks on GPUs for interlace/calibration.py: functions of the module _cuda.
#pragma once

#include <nanobind/nanobind.h>

namespace interlace::python {

void bind_microbenchmarks(nanobind::module_& module);

}  // namespace interlace::python
