// The machine structs as Python classes.
#pragma once

#include <nanobind/nanobind.h>

namespace interlace::python {

// Adds Machine, Link, Switch and Protocol, whose values are found by the keys of a machine file,
// that list itself, Endpoint, route(), validate_machine() and discover_machine().
void bind_machine(nanobind::module_& module);

}  // namespace interlace::python
