// Python bindings of transfers between files and GPUs.
#pragma once

#include <nanobind/nanobind.h>

namespace interlace::python {

void bind_checkpoints(nanobind::module_& module);

}  // namespace interlace::python
