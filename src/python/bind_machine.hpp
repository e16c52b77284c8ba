// The machine structs as Python classes.
#pragma once

#include <nanobind/nanobind.h>

namespace interlace::python {

// Adds Machine, Gpu, Cache, Dram, IssueRates, Link, Endpoint, Protocol, Switch and Host with the
// C++ field names, route() and discover_machine().
void bind_machine(nanobind::module_& module);

}  // namespace interlace::python
