// With every mechanism, the Jacobi iteration on GPUs must give the results of plain loops.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "gpu.hpp"
#include "interlace/run/iterate.hpp"
#include "interlace/run/launching.hpp"
#include "workload/jacobi.hpp"

namespace interlace::jacobi_tests {
namespace {

using kernel::mechanism;

class jacobi_test : public testing::TestWithParam<std::uint32_t> {
 protected:
  void SetUp() override { INTERLACE_NEED_GPUS(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(all, jacobi_test, testing::Values(1U, 2U, 4U),
                         testing::PrintToStringParamName());

struct solution {
  std::vector<double> x;
  double residual = 0;
};

solution solve(const workload::banded_system& a, std::uint32_t iterations) {
  solution s{std::vector<double>(a.rows, 0.0)};
  for (std::uint32_t n = 0; n < iterations; ++n) {
    const std::vector<double> before = s.x;
    s.residual = 0;
    for (std::uint64_t i = 0; i < a.rows; ++i) {
      double rest = a.right[i];
      for (std::uint64_t k = 0; k < 2 * a.half_bandwidth + 1; ++k) {
        const std::uint64_t j = i + k - a.half_bandwidth;  // a negative index wraps
        if (j < a.rows && j != i)
          rest -= static_cast<double>(a.diagonals[k * a.rows + i]) * before[j];
      }
      s.x[i] = rest / a.diagonals[a.half_bandwidth * a.rows + i];
      s.residual += std::abs(s.x[i] - before[i]);
    }
  }
  return s;
}

TEST_P(jacobi_test, equals_the_reference_node) {
  const std::uint32_t devices = GetParam();
  const std::uint64_t rows = 100'003;
  for (const std::uint32_t half : {1U, 5U, 8U}) {
    const auto value = [&](std::uint64_t place) {
      return static_cast<float>(gpu_test::random_at(half, place) >> 40U) / 8388608.0F - 1.0F;
    };
    std::vector<float> diagonals((2 * half + 1) * rows);
    std::vector<float> right(rows);
    for (std::uint64_t k = 0; k < diagonals.size(); ++k) diagonals[k] = value(k);
    for (std::uint64_t i = 0; i < rows; ++i) {
      diagonals[half * rows + i] = 2.5F * static_cast<float>(half);
      right[i] = value(diagonals.size() + i);
    }
    workload::jacobi_problem problem{{rows, half, diagonals.data(), right.data()}};
    run::request asked;
    asked.agent_threads = gpu_test::agent_threads(asked.agent_threads);
    for (std::uint32_t d = 0; d <= devices; ++d) asked.boundaries.push_back(rows * d / devices);
    asked.iterations = 20;
    asked.tolerance = 1e-30;
    const solution expected = solve(problem.system, asked.iterations);
    for (const bool halo : {false, true}) {
      run::add_launching_kernels_of<workload::jacobi_problem>();
      for (const mechanism how :
           {mechanism::bulk_copy, mechanism::split, mechanism::inline_stores, mechanism::polling,
            mechanism::device_launch, mechanism::copy_engine}) {
        problem.halo = halo;
        asked.mechanism = how;
        cuda::node node(gpu_test::options_for(devices));
        auto work = problem.on(node, run::region_of(asked));
        auto found = run::iterate(node, work, asked);
        run::keep_values(node, work, found);
        EXPECT_NEAR(found.residual, expected.residual, 1e-3 * expected.residual + 1e-3);
        for (std::uint32_t d = 0; d < devices; ++d) {
          std::uint64_t first = 0;
          std::uint64_t last = rows;
          if (halo) {  // elements outside of the halo stay unchanged
            first = asked.boundaries[d] - std::min<std::uint64_t>(asked.boundaries[d], half);
            last = std::min(rows, asked.boundaries[d + 1] + half);
          }
          for (std::uint64_t i = first; i < last; ++i) {
            ASSERT_NEAR(found.values[d][i], expected.x[i], 1e-5)
                << kernel::mechanism_name(how) << ", row " << i << " on GPU " << d;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace interlace::jacobi_tests
