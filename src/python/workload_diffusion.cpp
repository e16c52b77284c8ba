#include <cmath>

#include "base/errors.hpp"
#include "python/workloads.hpp"

namespace interlace::python {

run::diffusion_problem diffusion_problem(const grid_in<float>& start, const std::string& equation,
                                         double rate, double speed) {
  if (equation != "heat" && equation != "burgers") {
    throw usage_error("the equation " + equation + " is neither heat nor burgers");
  }
  if (!(rate > 0 && std::isfinite(rate) && speed >= 0 && std::isfinite(speed))) {
    throw usage_error("rate and speed of a diffusion must be finite and above 0");
  }
  run::diffusion_problem problem;
  problem.start = {shape_of(start), start.data(),
                   equation == "heat" ? workload::diffusion_equation::heat
                                      : workload::diffusion_equation::burgers,
                   static_cast<float>(rate), static_cast<float>(speed)};
  return problem;
}

}  // namespace interlace::python
