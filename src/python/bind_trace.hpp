// Python bindings of traces, for the command line.
#pragma once

#include <nanobind/nanobind.h>

namespace interlace::python {

void bind_trace(nanobind::module_& module);

}  // namespace interlace::python
