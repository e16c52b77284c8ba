// Runs of programs that see several GPUs as one: what Python asks for, and what it is told.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <string>
#include <vector>

#include "run/unified.hpp"

namespace interlace::python {

// `pages` is empty for each array's own, where none move, or "own" for these in any case. Throws
// usage_error.
run::unified_request unified_request_of(std::uint32_t gpus, const std::string& pages,
                                        const std::string& blocks);

// Values as an array that owns them.
nanobind::ndarray<nanobind::numpy, float, nanobind::ndim<1>> array_of(std::vector<float> values);

// time_s, cpu_s, link_bytes, loads, decisions, values.
nanobind::dict unified_result(run::unified_result result, double cpu_s);

}  // namespace interlace::python
