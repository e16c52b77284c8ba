// With every mechanism, matrix factorisation on GPUs must give the same results as on the reference
// node.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <future>
#include <vector>

#include "gpu.hpp"
#include "interlace/run/iterate.hpp"
#include "interlace/run/launching.hpp"
#include "workload/als.hpp"

namespace interlace::als_tests {
namespace {

using kernel::mechanism;

class als_test : public testing::TestWithParam<std::uint32_t> {
 protected:
  void SetUp() override { INTERLACE_NEED_GPUS(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(all, als_test, testing::Values(1U, 2U, 4U),
                         testing::PrintToStringParamName());

struct side {
  std::vector<std::uint64_t> offsets{0};
  std::vector<std::uint32_t> others;
  std::vector<float> values;
};

float unit(std::uint64_t seed, std::uint64_t place) {
  return static_cast<float>(gpu_test::random_at(seed, place) >> 40U) / 16777216.0F;
}

// Returns the largest error of all factors. The error of a factor is relative to the factor's
// largest number.
double worst(const std::vector<float>& found, const std::vector<float>& expected,
             std::uint32_t rank) {
  double most = 0;
  for (std::size_t first = 0; first < expected.size(); first += rank) {
    double error = 0;
    double largest = 1e-30;
    for (std::size_t k = first; k < first + rank; ++k) {
      const double e = std::abs(static_cast<double>(found[k]) - static_cast<double>(expected[k]));
      error = e <= error ? error : e;  // a NaN compares as false and is kept
      largest = std::max(largest, std::abs(static_cast<double>(expected[k])));
    }
    const double relative = error / largest;
    most = relative <= most ? most : relative;
  }
  return most;
}

TEST_P(als_test, equals_the_reference_node) {
  const std::uint32_t devices = GetParam();
  const std::uint32_t users = 1501;
  const std::uint32_t items = 407;
  side by_user;
  side by_item;
  std::vector<std::vector<std::uint64_t>> of_item(items);
  std::vector<std::uint32_t> user_of;
  for (std::uint32_t u = 0; u < users; ++u) {
    // Some users have no ratings. One user has so many ratings that the kernels cut them into
    // several parts.
    const std::uint32_t count = u == 40 ? 1300 : u % 13 == 5 ? 0 : 1 + u % 40;
    for (std::uint32_t k = 0; k < count; ++k) {
      const std::uint64_t place = by_user.others.size();
      const auto i = static_cast<std::uint32_t>(unit(1, place) * unit(2, place) * items);
      of_item[i].push_back(place);
      user_of.push_back(u);
      by_user.others.push_back(i);
      by_user.values.push_back(1 + 4 * unit(3, place));
    }
    by_user.offsets.push_back(by_user.others.size());
  }
  for (const auto& places : of_item) {
    for (const std::uint64_t place : places) {
      by_item.others.push_back(user_of[place]);
      by_item.values.push_back(by_user.values[place]);
    }
    by_item.offsets.push_back(by_item.others.size());
  }
  for (const std::uint32_t rank : {16U, 32U}) {
    std::vector<float> start(std::size_t{users + items} * rank);
    for (std::size_t k = 0; k < start.size(); ++k) start[k] = unit(4, k) / 2;
    for (const auto method :
         {workload::factorisation_method::equations, workload::factorisation_method::gradient}) {
      workload::als_problem problem;
      problem.ratings = {users,
                         items,
                         by_user.offsets.data(),
                         by_user.others.data(),
                         by_user.values.data(),
                         by_item.offsets.data(),
                         by_item.others.data(),
                         by_item.values.data()};
      problem.start_users = start.data();
      problem.start_items = start.data() + std::size_t{users} * rank;
      problem.rank = rank;
      problem.method = method;
      problem.lambda = 0.05F;
      problem.rate = 0.02F;
      problem.steps = 2;
      run::request asked;
      asked.agent_threads = gpu_test::agent_threads(asked.agent_threads);
      for (std::uint32_t d = 0; d <= devices; ++d) {
        asked.boundaries.push_back(std::uint64_t{users} * d / devices * rank);
      }
      asked.iterations = 2;
      // The reference is computed while the GPUs work.
      std::future<run::result> reference =
          std::async(std::launch::async, [problem, asked] { return run::on_host(problem, asked); });
      run::result expected;
      const double allowed = method == workload::factorisation_method::equations ? 1e-3 : 1e-5;
      run::add_launching_kernels_of<workload::als_problem>();
      for (const mechanism how :
           {mechanism::bulk_copy, mechanism::split, mechanism::inline_stores, mechanism::polling,
            mechanism::device_launch, mechanism::copy_engine}) {
        SCOPED_TRACE(kernel::mechanism_name(how));
        asked.mechanism = how;
        cuda::node node(gpu_test::options_for(devices));
        auto work = problem.on(node, run::region_of(asked));
        auto found = run::iterate(node, work, asked);
        run::keep_values(node, work, found);
        if (reference.valid()) expected = reference.get();
        for (std::uint32_t d = 0; d < devices; ++d) {
          EXPECT_LE(worst(found.values[d], expected.values[d], rank), allowed)
              << "rank " << rank << ", GPU " << d;
        }
      }
    }
  }
}

}  // namespace
}  // namespace interlace::als_tests
