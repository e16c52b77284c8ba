// Python classes for the structs of machines.
#pragma once

#include <nanobind/nanobind.h>

namespace interlace::python {

// Adds the classes Machine, Link, Switch, Protocol and Endpoint, the functions route(),
// validate_machine(), discover_machine() and report_driver(), and the keys of machine files.
// Machine, Link, Switch and Protocol give their values by these keys.
void bind_machine(nanobind::module_& module);

}  // namespace interlace::python
