// Linear programs of a few hundred rows, exactly repeatable.
#pragma once

#include <cstddef>
#include <vector>

namespace interlace::plan {

// Maximise objective . x with every row . x <= its limit and x >= 0. Limits are not negative, so
// that x = 0 satisfies all of them.
struct linear_program {
  std::vector<double> objective;
  std::vector<std::vector<double>> rows;
  std::vector<double> limits;
};

struct linear_solution {
  bool bounded = true;  // else nothing below holds
  double value = 0;
  std::vector<double> x;
  std::vector<double> prices;  // of each row: how much the value grows with its limit
};

// The primal simplex method on a dense tableau. The variable that gains most enters, the lowest
// index among equals; after long degenerate stretches the lowest index that gains (Bland's rule),
// which cannot cycle. Coefficients should be near 1: what is below 1e-9 counts as nothing.
linear_solution maximise(const linear_program& program);

}  // namespace interlace::plan
