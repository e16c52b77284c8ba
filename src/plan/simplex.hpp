// Solves linear programs of a few hundred rows. The same program always gives the same result.
#pragma once

#include <cstddef>
#include <vector>

namespace interlace::plan {

// Maximises objective . x, subject to row . x <= limit for every row, and to x >= 0. Limits must
// not be negative, so x = 0 satisfies all rows.
struct linear_program {
  std::vector<double> objective;
  std::vector<std::vector<double>> rows;
  std::vector<double> limits;
};

struct linear_solution {
  bool bounded = true;  // if false, the other members have no meaning
  double value = 0;
  std::vector<double> x;
  std::vector<double> prices;  // for each row, how much the value grows if the row's limit grows
};

// Solves the program by the primal simplex method on a dense tableau. The variable that gains most
// enters the basis. Among several such variables, the variable with the lowest index enters. After
// many degenerate steps, the rule changes: the variable with the lowest index that gains anything
// enters (Bland's rule), which cannot cycle. Coefficients should be near 1, because values below
// 1e-9 count as 0.
linear_solution maximise(const linear_program& program);

}  // namespace interlace::plan
