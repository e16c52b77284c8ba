// Programs that see several GPUs as one, for Python.
#pragma once

#include <nanobind/nanobind.h>

namespace interlace::python {

void bind_unified(nanobind::module_& module);

}  // namespace interlace::python
