#include "plan/simplex.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>

namespace interlace::plan::simplex_tests {
namespace {

TEST(simplex, finds_a_known_optimum_and_its_prices) {
  // The program 3 x + 5 y with x <= 4, 2 y <= 12 and 3 x + 2 y <= 18 has its maximum, 36, at
  // x = 2 and y = 6.
  const auto found = maximise({{3, 5}, {{1, 0}, {0, 2}, {3, 2}}, {4, 12, 18}});
  ASSERT_TRUE(found.bounded);
  EXPECT_NEAR(found.value, 36, 1e-9);
  EXPECT_NEAR(found.x[0], 2, 1e-9);
  EXPECT_NEAR(found.x[1], 6, 1e-9);
  EXPECT_NEAR(found.prices[0], 0, 1e-9);
  EXPECT_NEAR(found.prices[1], 1.5, 1e-9);
  EXPECT_NEAR(found.prices[2], 1, 1e-9);
}

TEST(simplex, says_that_a_value_has_no_bound) {
  EXPECT_FALSE(maximise({{1, 1}, {{1, -1}}, {1}}).bounded);
}

TEST(simplex, ends_where_rows_are_degenerate) {
  // This is Beale's example. A solver that always takes the steepest variable would cycle. The
  // maximum is 0.05 at (0.04, 0, 1, 0).
  const auto found = maximise({{0.75, -150, 0.02, -6},
                               {{0.25, -60, -0.04, 9}, {0.5, -90, -0.02, 3}, {0, 0, 1, 0}},
                               {0, 0, 1}});
  ASSERT_TRUE(found.bounded);
  EXPECT_NEAR(found.value, 0.05, 1e-9);
}

// Returns the best value among all corners of a program with two variables.
double best_corner(const linear_program& program) {
  std::vector<std::vector<double>> rows = program.rows;
  std::vector<double> limits = program.limits;
  rows.push_back({-1, 0});
  rows.push_back({0, -1});
  limits.insert(limits.end(), {0, 0});
  double best = 0;
  for (std::size_t one = 0; one < rows.size(); ++one)
    for (std::size_t other = one + 1; other < rows.size(); ++other) {
      const double determinant = rows[one][0] * rows[other][1] - rows[one][1] * rows[other][0];
      if (std::abs(determinant) < 1e-9) continue;
      const double x = (limits[one] * rows[other][1] - rows[one][1] * limits[other]) / determinant;
      const double y = (rows[one][0] * limits[other] - limits[one] * rows[other][0]) / determinant;
      bool inside = true;
      for (std::size_t row = 0; row < rows.size(); ++row)
        inside = inside && rows[row][0] * x + rows[row][1] * y <= limits[row] + 1e-9;
      if (inside) best = std::max(best, program.objective[0] * x + program.objective[1] * y);
    }
  return best;
}

TEST(simplex, agrees_with_all_corners_of_random_programs) {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> part(0.1, 1);
  for (int turn = 0; turn < 300; ++turn) {
    linear_program program;
    program.objective = {part(random), part(random)};
    for (int row = 0; row < 4; ++row) {
      program.rows.push_back({part(random), part(random) - 0.3});
      program.limits.push_back(turn % 5 == 0 && row == 0 ? 0 : part(random));
    }
    program.rows.push_back({0.1, 1});  // this row makes the program bounded
    program.limits.push_back(1);
    const auto found = maximise(program);
    ASSERT_TRUE(found.bounded);
    EXPECT_NEAR(found.value, best_corner(program), 1e-7) << turn;
    double priced = 0;
    for (std::size_t row = 0; row < program.rows.size(); ++row) {
      EXPECT_LE(program.rows[row][0] * found.x[0] + program.rows[row][1] * found.x[1],
                program.limits[row] + 1e-9);
      EXPECT_GE(found.prices[row], -1e-9);
      priced += found.prices[row] * program.limits[row];
    }
    // By strong duality, the priced limits add up to the maximum.
    EXPECT_NEAR(priced, found.value, 1e-7);
  }
}

}  // namespace
}  // namespace interlace::plan::simplex_tests
