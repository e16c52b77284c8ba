// Microbenchmarks of multiprocessors, caches and kernel starts on simulated GPUs, as functions of
// the module _core. interlace/study/multiprocessor_rows.py uses them.
#pragma once

#include <nanobind/nanobind.h>

namespace interlace::python {

void bind_multiprocessor(nanobind::module_& module);

}  // namespace interlace::python
