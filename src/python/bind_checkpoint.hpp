// Python bindings of transfers between files and the host's memory.
#pragma once

#include <nanobind/nanobind.h>

namespace interlace::python {

void bind_checkpoint(nanobind::module_& module);

}  // namespace interlace::python
