// Python bindings of packets of updates.
#pragma once

#include <nanobind/nanobind.h>

namespace interlace::python {

void bind_update_packets(nanobind::module_& module);

}  // namespace interlace::python
