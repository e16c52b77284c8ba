// Converts the requests and the results of programs that see several GPUs as one, between Python
// and C++.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <string>
#include <vector>

#include "run/unified.hpp"

namespace interlace::python {

// Returns the request. If `pages` is empty, each array has its own placement, unless the mechanism
// moves pages. If `pages` is "own", each array has its own placement even if pages move. Throws
// usage_error for an unknown name of a placement.
run::unified_request unified_request_of(std::uint32_t gpus, const std::string& pages,
                                        const std::string& blocks);

// Returns a Python array that owns the values.
nanobind::ndarray<nanobind::numpy, float, nanobind::ndim<1>> array_of(std::vector<float> values);

// Returns a dictionary of the result. The keys are time_s, cpu_s, link_bytes, loads, decisions and
// values.
nanobind::dict unified_result(run::unified_result result, double cpu_s);

}  // namespace interlace::python
