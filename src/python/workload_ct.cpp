#include <nanobind/stl/string.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "base/errors.hpp"
#include "python/workloads.hpp"

namespace interlace::python {

run::ct_problem ct_problem(const matrix_in<float>& measured, const matrix_in<float>& weights,
                           const matrix_in<float>& curvature, std::uint32_t subsets, double beta,
                           const std::string& subscribe) {
  constexpr std::size_t most = std::numeric_limits<std::uint32_t>::max();
  if (weights.shape(0) != measured.shape(0) || weights.shape(1) != measured.shape(1) ||
      curvature.shape(0) != curvature.shape(1) || measured.size() > most ||
      curvature.size() > most) {
    throw usage_error("what was measured, its weights and the image are not of one scan");
  }
  const float* last = curvature.data() + curvature.size();
  if (!std::all_of(curvature.data(), last, [](float d) { return d > 0; })) {
    throw usage_error("a pixel's curvature is not above 0");
  }
  if (!(beta >= 0 && std::isfinite(beta))) {
    throw usage_error("beta must be a finite number of at least 0");
  }
  run::ct_problem problem;
  problem.to_readers = to_readers(subscribe);
  problem.scan = {static_cast<std::uint32_t>(curvature.shape(0)),
                  static_cast<std::uint32_t>(measured.shape(0)),
                  static_cast<std::uint32_t>(measured.shape(1)),
                  subsets,
                  static_cast<float>(beta),
                  measured.data(),
                  weights.data(),
                  curvature.data()};
  return problem;
}

}  // namespace interlace::python
