// Tomographic reconstruction on GPUs gives the same results as the reference node, by every
// mechanism.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <vector>

#include "gpu.hpp"
#include "interlace/run/iterate.hpp"
#include "interlace/run/launching.hpp"
#include "workload/ct.hpp"

namespace interlace::ct_tests {
namespace {

using kernel::mechanism;

class ct_test : public testing::TestWithParam<std::uint32_t> {
 protected:
  void SetUp() override { INTERLACE_NEED_GPUS(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(all, ct_test, testing::Values(1U, 2U, 4U),
                         testing::PrintToStringParamName());

float unit(std::uint64_t seed, std::uint64_t place) {
  return static_cast<float>(gpu_test::random_at(seed, place) >> 40U) / 16777216.0F;
}

// Some sizes are multiples of a tile, and others are not. Some angles have fewer rays than a block,
// and others have more. Some subsets have few angles, and others have many. In the first images of
// size 301, lanes have one pixel because there are few pixels. On one GPU with 132 multiprocessors,
// lanes have two and four pixels in the last images.
TEST_P(ct_test, equals_the_reference_node) {
  const std::uint32_t devices = GetParam();
  struct scan {
    std::uint32_t size, angles, subsets;
  };
  for (const auto& [size, angles, subsets] :
       {scan{64, 72, 2}, scan{301, 36, 3}, scan{301, 36, 1}, scan{500, 6, 3}, scan{1100, 4, 2}}) {
    const std::uint32_t detectors = workload::least_detectors(size);
    const std::size_t rays = std::size_t{angles} * detectors;
    std::vector<float> measured(rays);
    std::vector<float> weights(rays);
    for (std::size_t i = 0; i < rays; ++i) {
      measured[i] = static_cast<float>(size) * unit(1, i) / 2;
      weights[i] = unit(2, i);
    }
    // The curvature is larger than any sum of lengths, weights and rays, so that no value grows.
    const std::vector<float> curvature(std::size_t{size} * size,
                                       3.0F * static_cast<float>(angles * size));
    const workload::ct_problem problem{{size, angles, detectors, subsets, 20.0F, measured.data(),
                                        weights.data(), curvature.data()}};
    run::request asked;
    asked.agent_threads = gpu_test::agent_threads(asked.agent_threads);
    asked.iterations = 2;
    asked.chunk_bytes = 16384;
    // The reference is computed with one device. It serves all numbers of devices.
    static std::map<std::array<std::uint32_t, 3>, std::vector<float>> references;
    std::vector<float>& expected = references[{size, angles, subsets}];
    if (expected.empty()) {
      asked.boundaries = {0, std::uint64_t{size} * size};
      expected = run::on_host(problem, asked).values[0];
    }
    asked.boundaries.clear();
    for (std::uint32_t d = 0; d <= devices; ++d) {
      asked.boundaries.push_back(std::uint64_t{size} * d / devices * size);
    }
    double largest = 0;
    for (const float x : expected) largest = std::max(largest, static_cast<double>(x));
    ASSERT_GT(largest, 0);
    run::add_launching_kernels_of<workload::ct_problem>();
    for (const mechanism how :
         {mechanism::bulk_copy, mechanism::split, mechanism::inline_stores, mechanism::polling,
          mechanism::device_launch, mechanism::copy_engine}) {
      SCOPED_TRACE(kernel::mechanism_name(how));
      asked.mechanism = how;
      cuda::node node(gpu_test::options_for(devices));
      auto work = problem.on(node, run::region_of(asked));
      std::vector<float> first;
      for (int round = 0; round < 2; ++round) {
        work.reset();
        auto found = run::iterate(node, work, asked);
        run::keep_values(node, work, found);
        for (std::uint32_t d = 0; d < devices; ++d) {
          const auto& values = found.values[d];
          if (first.empty()) first = values;
          EXPECT_TRUE(values == first) << "size " << size << ", " << subsets << " subsets"
                                       << ", GPU " << d << ", round " << round;
        }
      }
      double worst = 0;
      for (std::size_t j = 0; j < first.size(); ++j) {
        const double error =
            std::abs(static_cast<double>(first[j]) - static_cast<double>(expected[j]));
        worst = error <= worst ? worst : error;  // written so that a NaN is kept
      }
      EXPECT_LE(worst, 1e-5 * largest) << "size " << size;
    }
  }
}

}  // namespace
}  // namespace interlace::ct_tests
