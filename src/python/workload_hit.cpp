#include <nanobind/stl/string.h>

#include <cmath>
#include <string>

#include "base/errors.hpp"
#include "python/workloads.hpp"

namespace interlace::python {

run::hit_problem hit_problem(const grid_in<float>& velocity, double viscosity, double step,
                             const std::string& kernel) {
  const workload::grid_shape shape = shape_of(velocity);
  const std::uint32_t n = shape.planes;
  if (n < 2 || shape.rows != 3 * std::uint64_t{n} || shape.columns != 2 * (n / 2 + 1)) {
    throw usage_error("the velocity has not the form of a box's coefficients");
  }
  if (!(viscosity >= 0 && std::isfinite(viscosity) && step > 0 && std::isfinite(step))) {
    throw usage_error("viscosity and step must be finite, and above 0 or for viscosity 0");
  }
  run::hit_problem problem;
  problem.start = {n, velocity.data(), static_cast<float>(viscosity), static_cast<float>(step)};
  problem.kernel = run::parse_point_kernel(kernel);
  return problem;
}

}  // namespace interlace::python
