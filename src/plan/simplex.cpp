#include "plan/simplex.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace interlace::plan {
namespace {

constexpr double nothing = 1e-9;

class tableau {
 public:
  explicit tableau(const linear_program& program)
      : variables_(program.objective.size()),
        height_(program.rows.size()),
        width_(variables_ + height_ + 1),
        cells_((height_ + 1) * width_, 0),
        basis_(height_) {
    for (std::size_t row = 0; row < height_; ++row) {
      std::copy(program.rows[row].begin(), program.rows[row].end(), line(row));
      line(row)[variables_ + row] = 1;
      line(row)[width_ - 1] = program.limits[row];
      basis_[row] = variables_ + row;
    }
    for (std::size_t column = 0; column < variables_; ++column)
      line(height_)[column] = -program.objective[column];
  }

  // Solves the program. Returns false if the objective is unbounded.
  bool solve() {
    std::size_t without_gain = 0;
    for (;;) {
      const std::size_t column = entering(without_gain > 2 * height_ + 20);
      if (column == none) return true;
      const std::size_t row = leaving(column);
      if (row == none) return false;
      without_gain = line(row)[width_ - 1] > nothing ? 0 : without_gain + 1;
      pivot(row, column);
    }
  }

  linear_solution solution() const {
    linear_solution found;
    found.value = line(height_)[width_ - 1];
    found.x.assign(variables_, 0);
    for (std::size_t row = 0; row < height_; ++row)
      if (basis_[row] < variables_) found.x[basis_[row]] = std::max(0.0, line(row)[width_ - 1]);
    found.prices.assign(line(height_) + variables_, line(height_) + width_ - 1);
    return found;
  }

 private:
  static constexpr std::size_t none = std::numeric_limits<std::size_t>::max();

  double* line(std::size_t row) { return cells_.data() + row * width_; }
  const double* line(std::size_t row) const { return cells_.data() + row * width_; }

  std::size_t entering(bool lowest) const {
    const double* costs = line(height_);
    std::size_t best = none;
    double least = -nothing;
    for (std::size_t column = 0; column + 1 < width_; ++column) {
      if (costs[column] >= least) continue;
      best = column;
      if (lowest) break;
      least = costs[column];
    }
    return best;
  }

  std::size_t leaving(std::size_t column) const {
    std::size_t best = none;
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t row = 0; row < height_; ++row) {
      const double step = line(row)[column];
      if (step <= nothing) continue;
      const double ratio = line(row)[width_ - 1] / step;
      if (ratio < least || (ratio == least && basis_[row] < basis_[best])) {
        least = ratio;
        best = row;
      }
    }
    return best;
  }

  void pivot(std::size_t row, std::size_t column) {
    double* base = line(row);
    const double divisor = base[column];
    for (std::size_t at = 0; at < width_; ++at) base[at] /= divisor;
    base[column] = 1;
    for (std::size_t other = 0; other <= height_; ++other) {
      double* changed = line(other);
      const double times = changed[column];
      if (other == row || times == 0) continue;
      for (std::size_t at = 0; at < width_; ++at) changed[at] -= times * base[at];
      changed[column] = 0;
      // Rounding could make a limit negative, but a limit must not be negative.
      if (other < height_ && changed[width_ - 1] < 0) changed[width_ - 1] = 0;
    }
    basis_[row] = column;
  }

  std::size_t variables_;
  std::size_t height_;
  std::size_t width_;
  std::vector<double> cells_;  // the last row is the objective, and the last column has the limits
  std::vector<std::size_t> basis_;
};

}  // namespace

linear_solution maximise(const linear_program& program) {
  tableau table(program);
  if (!table.solve()) {
    linear_solution unbounded;
    unbounded.bounded = false;
    return unbounded;
  }
  return table.solution();
}

}  // namespace interlace::plan
