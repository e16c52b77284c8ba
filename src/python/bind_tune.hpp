// Python bindings of the search for the fastest mechanism and parameters.
#pragma once

#include <nanobind/nanobind.h>

namespace interlace::python {

// Adds TuneSpace, TuneFamily, TuneRound, TuneMeasured and TuneResult with the C++ field names,
// tune_space() and tune_in_rounds(). A candidate is (mechanism, {parameter: value}).
void bind_tune(nanobind::module_& module);

}  // namespace interlace::python
