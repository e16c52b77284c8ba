// Python bindings of trace files. The command line uses them.
#pragma once

#include <nanobind/nanobind.h>

namespace interlace::python {

void bind_trace(nanobind::module_& module);

}  // namespace interlace::python
