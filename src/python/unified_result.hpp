// Runs of programs that see several GPUs as one: requests from Python, and results for it.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <string>
#include <vector>

#include "run/unified.hpp"

namespace interlace::python {

// If `pages` is empty, each array chooses its placement, unless pages move. "own" makes this hold
// even if pages move. Throws usage_error.
run::unified_request unified_request_of(std::uint32_t gpus, const std::string& pages,
                                        const std::string& blocks);

// An array that owns the values.
nanobind::ndarray<nanobind::numpy, float, nanobind::ndim<1>> array_of(std::vector<float> values);

// Keys: time_s, cpu_s, link_bytes, loads, decisions, values.
nanobind::dict unified_result(run::unified_result result, double cpu_s);

}  // namespace interlace::python
