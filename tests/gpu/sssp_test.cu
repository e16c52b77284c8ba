// With every mechanism, shortest paths on GPUs must be the same as on the reference node, bit for
// bit.
#include <cstdint>
#include <vector>

#include "gpu.hpp"
#include "interlace/run/iterate.hpp"
#include "interlace/run/launching.hpp"
#include "workload/sssp.hpp"

namespace interlace::sssp_tests {
namespace {

using kernel::mechanism;

class sssp_test : public testing::TestWithParam<std::uint32_t> {
 protected:
  void SetUp() override { INTERLACE_NEED_GPUS(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(all, sssp_test, testing::Values(1U, 2U, 4U),
                         testing::PrintToStringParamName());

TEST_P(sssp_test, equals_the_reference_node) {
  const std::uint32_t devices = GetParam();
  const std::uint32_t vertices = 30'000;
  std::vector<std::uint64_t> offsets{0};
  std::vector<std::uint32_t> columns;
  std::vector<float> weights;
  for (std::uint32_t v = 0; v < vertices; ++v) {
    // Some rows are handled by a lane, some by a warp, and some by several blocks. Some rows are
    // empty.
    const std::uint32_t edges = v == 777 ? 20'000 : v % 101 == 5 ? 300 : v % 12;
    for (std::uint32_t e = 0; e < edges; ++e) {
      const std::uint64_t r = gpu_test::random_at(7, columns.size());
      columns.push_back(static_cast<std::uint32_t>((v + 1 + r % 3000) % vertices));
      weights.push_back(static_cast<float>(r >> 40U) / 16777216.0F);
    }
    offsets.push_back(columns.size());
  }
  const workload::sssp_problem problem{{vertices, offsets.data(), columns.data(), weights.data()},
                                       99};
  run::request asked;
  asked.agent_threads = gpu_test::agent_threads(asked.agent_threads);
  for (std::uint32_t d = 0; d <= devices; ++d) {
    asked.boundaries.push_back(std::uint64_t{vertices} * d / devices);
  }
  for (const double tolerance : {0.0, 0.5}) {
    asked.tolerance = tolerance;
    asked.iterations = tolerance > 0 ? vertices : 7;
    asked.mechanism = mechanism::bulk_copy;
    const run::result expected = run::on_host(problem, asked);
    run::add_launching_kernels_of<workload::sssp_problem>();
    for (const mechanism how :
         {mechanism::bulk_copy, mechanism::split, mechanism::inline_stores, mechanism::polling,
          mechanism::device_launch, mechanism::copy_engine}) {
      SCOPED_TRACE(kernel::mechanism_name(how));
      asked.mechanism = how;
      cuda::node node(gpu_test::options_for(devices));
      auto work = problem.on(node, run::region_of(asked));
      auto found = run::iterate(node, work, asked);
      run::keep_values(node, work, found);
      EXPECT_EQ(found.iterations, expected.iterations);
      EXPECT_EQ(found.residual, expected.residual);
      EXPECT_EQ(found.values, expected.values);
    }
  }
}

}  // namespace
}  // namespace interlace::sssp_tests
