// With every mechanism, tomographic reconstruction on GPUs must give the same results as on the
// reference node.
#include <algorithm>
#include <cmath>
#include <compare>
#include <cstdint>
#include <future>
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

struct scan {
  std::uint32_t size, angles, subsets;
  auto operator<=>(const scan&) const = default;

  std::size_t rays() const { return std::size_t{angles} * workload::least_detectors(size); }
  std::vector<float> measured() const {
    std::vector<float> values(rays());
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(size) * unit(1, i) / 2;
    }
    return values;
  }
  std::vector<float> weights() const {
    std::vector<float> values(rays());
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = unit(2, i);
    return values;
  }
  // This curvature is above the sum over all rays that ct.hpp names, for every pixel. No value of
  // the image therefore grows without bound.
  std::vector<float> curvature() const {
    return std::vector<float>(std::size_t{size} * size, 3.0F * static_cast<float>(angles * size));
  }
};

workload::ct_problem problem_of(const scan& s, const std::vector<float>& measured,
                                const std::vector<float>& weights,
                                const std::vector<float>& curvature) {
  return {{s.size, s.angles, workload::least_detectors(s.size), s.subsets, 20.0F, measured.data(),
           weights.data(), curvature.data()}};
}

run::request request_of() {
  run::request asked;
  asked.agent_threads = gpu_test::agent_threads(asked.agent_threads);
  asked.iterations = 2;
  asked.chunk_bytes = 16384;
  return asked;
}

// Returns the result of the reference node with one device. The tests compare it with the results
// of all numbers of devices.
std::vector<float> reference_of(const scan& s) {
  const auto measured = s.measured();
  const auto weights = s.weights();
  const auto curvature = s.curvature();
  run::request asked = request_of();
  asked.boundaries = {0, std::uint64_t{s.size} * s.size};
  return run::on_host(problem_of(s, measured, weights, curvature), asked).values[0];
}

// Some sizes are multiples of a tile, and some are not. Some angles have fewer rays than a block,
// and some have more. Some subsets have few angles, and some have many. In the first images of size
// 301, each lane has one pixel, because there are few pixels. In the last images, each lane has two
// or four pixels on one GPU with 132 multiprocessors.
TEST_P(ct_test, equals_the_reference_node) {
  const std::uint32_t devices = GetParam();
  const auto scans = {scan{64, 72, 2}, scan{301, 36, 3}, scan{301, 36, 1}, scan{500, 6, 3},
                      scan{1100, 4, 2}};
  // All references are computed at the same time, while the GPUs work on the first scans.
  static std::map<scan, std::shared_future<std::vector<float>>> references;
  for (const scan& s : scans) {
    if (!references.contains(s)) {
      references[s] = std::async(std::launch::async, [s] { return reference_of(s); });
    }
  }
  for (const scan& s : scans) {
    const auto [size, angles, subsets] = s;
    const auto measured = s.measured();
    const auto weights = s.weights();
    const auto curvature = s.curvature();
    const workload::ct_problem problem = problem_of(s, measured, weights, curvature);
    run::request asked = request_of();
    for (std::uint32_t d = 0; d <= devices; ++d) {
      asked.boundaries.push_back(std::uint64_t{size} * d / devices * size);
    }
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
      const std::vector<float>& expected = references.at(s).get();
      double largest = 0;
      for (const float x : expected) largest = std::max(largest, static_cast<double>(x));
      ASSERT_GT(largest, 0);
      double worst = 0;
      for (std::size_t j = 0; j < first.size(); ++j) {
        const double error =
            std::abs(static_cast<double>(first[j]) - static_cast<double>(expected[j]));
        worst = error <= worst ? worst : error;  // a NaN compares as false and is kept
      }
      EXPECT_LE(worst, 1e-5 * largest) << "size " << size;
    }
  }
}

}  // namespace
}  // namespace interlace::ct_tests
