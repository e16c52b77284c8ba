// Programs that see several GPUs as one, on real GPUs, for Python: functions of the module _cuda.
#pragma once

#include <nanobind/nanobind.h>

namespace interlace::python {

void bind_unified_on_gpus(nanobind::module_& module);

}  // namespace interlace::python
