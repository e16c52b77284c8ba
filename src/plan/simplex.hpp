// Solves linear programs of a few hundred rows. The same program always gives the same result.
#pragma once

#include <cstddef>
#include <vector>

namespace interlace::plan {

// Maximises objective . x, subject to row . x <= limit for every row, and x >= 0. Limits are not
// negative, so x = 0 satisfies all rows.
struct linear_program {
  std::vector<double> objective;
  std::vector<std::vector<double>> rows;
  std::vector<double> limits;
};

struct linear_solution {
  bool bounded = true;  // if false, the other members have no meaning
  double value = 0;
  std::vector<double> x;
  std::vector<double> prices;  // for each row, how much the value grows with the row's limit
};

// The primal simplex method on a dense tableau. The variable that gains most enters the basis; of
// several such variables, the one with the lowest index. After many degenerate steps, the variable
// with the lowest index that gains anything enters (Bland's rule), which cannot cycle. Coefficients
// should be near 1: values below 1e-9 count as 0.
linear_solution maximise(const linear_program& program);

}  // namespace interlace::plan
