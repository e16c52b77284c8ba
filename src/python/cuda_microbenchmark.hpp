// Microbenchmarks on GPUs, as functions of the module _cuda. interlace/calibration.py uses them.
#pragma once

#include <nanobind/nanobind.h>

namespace interlace::python {

void bind_microbenchmarks(nanobind::module_& module);

}  // namespace interlace::python
