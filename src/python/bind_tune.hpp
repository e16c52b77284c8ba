// Python bindings of the search for the fastest mechanism and parameters.
#pragma once

#include <nanobind/nanobind.h>

namespace interlace::python {

// Adds the classes TuneSpace, TuneFamily, TuneRound, TuneMeasured and TuneResult, whose fields have
// the names of the C++ fields, and the functions tune_space() and tune_in_rounds(). A candidate is
// a tuple (mechanism, {parameter: value}).
void bind_tune(nanobind::module_& module);

}  // namespace interlace::python
