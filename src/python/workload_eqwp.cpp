#include <nanobind/stl/string.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "base/errors.hpp"
#include "python/workloads.hpp"

namespace interlace::python {

run::eqwp_problem eqwp_problem(const grid_in<float>& velocity, const matrix_in<float>& medium,
                               const std::string& kernel) {
  constexpr std::size_t values = sizeof(workload::elastic_plane) / sizeof(float);
  workload::grid_shape shape = shape_of(velocity);
  // Planes of three components, one behind the other, come as planes of three times the rows.
  constexpr std::uint32_t components = workload::elastic_components;
  if (medium.shape(0) != shape.planes || medium.shape(1) != values ||
      shape.rows % components != 0) {
    throw usage_error("velocities and medium are not of one grid");
  }
  if (!std::all_of(medium.data(), medium.data() + medium.size(),
                   [](float m) { return m >= 0 && std::isfinite(m); })) {
    throw usage_error("a value of the medium is not finite, or below 0");
  }
  shape.rows /= components;
  run::eqwp_problem problem;
  problem.medium.resize(shape.planes);
  for (std::uint32_t p = 0; p < shape.planes; ++p) {
    const float* of_plane = medium.data() + p * values;
    problem.medium[p] = {of_plane[0], of_plane[1], of_plane[2]};
  }
  problem.shape = shape;
  problem.velocity = velocity.data();
  problem.kernel = run::parse_point_kernel(kernel);
  return problem;
}

}  // namespace interlace::python
