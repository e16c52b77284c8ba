// With every mechanism, diffusion, seismic waves and turbulence on GPUs must give the same results
// as on the reference node. The test uses the code of the Python module, which is compiled only
// once for both.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <future>
#include <string>
#include <vector>

#include "gpu.hpp"
#include "interlace/run/workload.hpp"
#include "workload/diffusion.hpp"
#include "workload/eqwp.hpp"
#include "workload/hit.hpp"

namespace interlace {
namespace {

using kernel::mechanism;

class grids_test : public testing::TestWithParam<std::uint32_t> {
 protected:
  void SetUp() override { INTERLACE_NEED_GPUS(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(all, grids_test, testing::Values(1U, 2U, 4U),
                         testing::PrintToStringParamName());

std::vector<float> random_values(std::size_t n, std::uint64_t seed) {
  std::vector<float> values(n);
  for (std::size_t i = 0; i < n; ++i) {
    values[i] = static_cast<float>(gpu_test::random_at(seed, i) >> 40U) / 8388608.0F - 1.0F;
  }
  return values;
}

// Runs the problem on GPUs and on the host. A plane has `plane` values. A device holds its own
// part, and `halo` values on each side of this part.
template <class Problem>
void compare(const Problem& problem, std::uint32_t devices, std::uint64_t planes,
             std::uint64_t halo, std::uint32_t iterations) {
  run::request asked;
  asked.agent_threads = gpu_test::agent_threads(asked.agent_threads);
  const std::uint64_t plane = problem.elements() / planes;
  for (std::uint32_t d = 0; d <= devices; ++d) {
    asked.boundaries.push_back(planes * d / devices * plane);
  }
  asked.iterations = iterations;
  asked.chunk_bytes = 16384;
  asked.share_gpu = gpu_test::shares_gpus();
  // The reference is computed while the GPUs work.
  std::future<run::result> reference =
      std::async(std::launch::async, [&problem, asked] { return run::on_host(problem, asked); });
  run::result expected;
  for (const mechanism how :
       {mechanism::bulk_copy, mechanism::split, mechanism::inline_stores, mechanism::polling,
        mechanism::device_launch, mechanism::copy_engine}) {
    SCOPED_TRACE(kernel::mechanism_name(how));
    asked.mechanism = how;
    const run::result found = run::on_cuda(problem, asked, 1, 2).result;
    if (reference.valid()) expected = reference.get();
    for (std::uint32_t d = 0; d < devices; ++d) {
      const std::uint64_t first = asked.boundaries[d] - std::min(asked.boundaries[d], halo);
      const std::uint64_t last = std::min(problem.elements(), asked.boundaries[d + 1] + halo);
      double largest = 0;
      double worst = 0;
      for (std::uint64_t i = first; i < last; ++i) {
        const auto right = static_cast<double>(expected.values[d][i]);
        const double error = std::abs(static_cast<double>(found.values[d][i]) - right);
        largest = std::max(largest, std::abs(right));
        worst = error <= worst ? worst : error;  // a NaN compares as false and is kept
      }
      // Some coefficients of the turbulence are all 0, so `largest` has a lower bound.
      EXPECT_LE(worst, 1e-5 * std::max(largest, 0.1)) << "GPU " << d;
    }
  }
}

TEST_P(grids_test, diffusion_equals_the_reference_node) {
  using enum workload::diffusion_equation;
  for (const auto& shape : {workload::grid_shape{37, 30, 65}, workload::grid_shape{130, 1, 301}}) {
    const auto values = random_values(shape.points(), 1);
    for (const auto equation : {heat, burgers}) {
      const workload::diffusion_problem problem{{shape, values.data(), equation, 0.1F, 1}};
      const std::uint64_t halo = (equation == heat ? 2 : 3) * shape.plane();
      compare(problem, GetParam(), shape.planes, halo, 4);
    }
  }
}

TEST_P(grids_test, eqwp_equals_the_reference_node) {
  const workload::grid_shape shape{33, 20, 67};
  const auto velocity = random_values(3 * shape.points(), 2);
  workload::eqwp_problem problem{shape, velocity.data(), {}};
  for (std::uint32_t p = 0; p < shape.planes; ++p) {
    problem.medium.push_back({0.1F, 0.05F + 0.001F * static_cast<float>(p), 1.0F});
  }
  compare(problem, GetParam(), shape.planes, 2 * 3 * shape.plane(), 6);
}

TEST_P(grids_test, hit_equals_the_reference_node) {
  for (const std::uint32_t n : {16U, 30U}) {
    workload::hit_problem problem{{n, nullptr, 0.05F, 0.002F}};
    // If all waves have a kx that is neither 0 nor n / 2, their sum is real whatever the
    // coefficients are.
    std::vector<float> velocity(problem.elements(), 0.0F);
    const std::uint64_t half = n / 2 + 1;
    const auto random = random_values(6 * 27, 3);
    for (std::uint64_t ky = 0; ky < 3; ++ky) {
      for (std::uint64_t c = 0; c < 3; ++c) {
        for (std::uint64_t kz = 0; kz < 3; ++kz) {
          for (std::uint64_t kx = 1; kx < 4; ++kx) {
            const std::uint64_t to = 2 * (((ky * 3 + c) * n + kz) * half + kx);
            const std::uint64_t from = 2 * (((ky * 3 + c) * 3 + kz) * 3 + kx - 1) % random.size();
            velocity[to] = random[from];
            velocity[to + 1] = random[from + 1];
          }
        }
      }
    }
    problem.start.velocity = velocity.data();
    try {
      compare(problem, GetParam(), n, 0, 3);
    } catch (const usage_error& error) {
      const std::string sentence = error.what();
      if (sentence.find("cuFFT cannot be loaded") == std::string::npos) throw;
      GTEST_SKIP() << sentence;
    }
  }
}

}  // namespace
}  // namespace interlace
