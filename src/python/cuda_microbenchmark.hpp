// Microbenchmarks on GPUs, as functions of the module _cuda, for
// interlace/study/calibration_gpus.py.
#pragma once

#include <nanobind/nanobind.h>

namespace interlace::python {

void bind_microbenchmarks(nanobind::module_& module);

}  // namespace interlace::python
