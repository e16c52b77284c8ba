// Measurements of copies over several paths, as functions of the module _cuda. Files of
// interlace/study call them.
#pragma once

#include <nanobind/nanobind.h>

namespace interlace::python {

void bind_copies(nanobind::module_& module);

}  // namespace interlace::python
