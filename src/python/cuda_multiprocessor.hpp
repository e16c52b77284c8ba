// Microbenchmarks of multiprocessors, caches and kernel starts on GPU 0, as functions of the module
// _cuda. interlace/study/calibration_gpus.py uses them.
#pragma once

#include <nanobind/nanobind.h>

namespace interlace::python {

void bind_cuda_multiprocessor(nanobind::module_& module);

}  // namespace interlace::python
