// Sampled runs of the simulated node: some have iterations that repeat, and some have iterations
// that differ.
#include "interlace/run/on_cpu.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "sim/described.hpp"

namespace interlace::on_cpu_tests {
namespace {

// Loads elements, adds 1 to each of them, and stores them. Block b stores `threads` elements.
struct add_one {
  static constexpr std::uint32_t threads = 128;

  replicated<float> values;
  std::uint64_t first = 0, last = 0;
  std::uint64_t rounds = 0;  // number of loads of each element

  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      const std::uint64_t i = first + lane.global_index();
      if (i >= last) return;
      float value = 0;
      for (auto r : lane.range(std::uint64_t{0}, rounds)) value = lane.load(values, i + 0 * r);
      lane.store(values, i, value + 1);
    });
  }
};

// On each device, a kernel adds 1 to each element of the device's part. In iteration `longer`, the
// kernel loads each element twice.
template <class Node>
class adding {
 public:
  adding(Node& node, std::uint64_t n, std::uint32_t longer, kernel::region_options options)
      : node_(node),
        longer_(longer),
        boundaries_(options.boundaries),
        values_(node.template create_region<float>(std::move(options))) {
    node.set_front(values_, std::vector<float>(n, 0));
  }

  void enqueue_iteration(bool /*track_residual*/) {
    const std::uint64_t rounds = iteration_++ == longer_ ? 2 : 1;
    for (std::uint32_t d = 0; d < node_.devices(); ++d) {
      const std::uint64_t first = boundaries_[d];
      const std::uint64_t last = boundaries_[d + 1];
      const grid shape{(last - first + add_one::threads - 1) / add_one::threads, add_one::threads};
      node_.launch(d, add_one{node_.view(values_, d), first, last, rounds}, shape, values_,
                   kernel::block_mapping::contiguous(first, add_one::threads, last));
    }
    node_.exchange(values_);
  }
  std::vector<float> result(std::uint32_t device) const { return node_.front(values_, device); }
  double residual() const { return 0; }

 private:
  Node& node_;
  std::uint32_t iteration_ = 0;
  std::uint32_t longer_;
  std::vector<std::uint64_t> boundaries_;
  kernel::region<float> values_;
};

struct adding_problem {
  std::uint64_t n = 4096;
  std::uint32_t longer = 1000;
  template <class Node>
  auto on(Node& node, kernel::region_options options) const {
    return adding<Node>(node, n, longer, std::move(options));
  }
};

constexpr std::uint32_t iterations = 11;

run::result simulated(const adding_problem& problem, kernel::mechanism how, bool whole) {
  run::request asked;
  asked.boundaries = {0, problem.n / 3, problem.n};
  asked.mechanism = how;
  asked.iterations = iterations;
  asked.whole = whole;
  return run::on_sim(problem, asked, test::meshed(2, machine::protocol_kind::nvlink2));
}

void expect_results(const run::result& found) {
  EXPECT_EQ(found.iterations, iterations);
  ASSERT_EQ(found.values.size(), 2U);
  for (const auto& values : found.values) {
    for (const float v : values) ASSERT_EQ(v, static_cast<float>(iterations));
  }
}

TEST(sampled_runs, iterations_that_repeat_count_like_the_two_before_them) {
  for (const auto how : {kernel::mechanism::bulk_copy, kernel::mechanism::inline_stores,
                         kernel::mechanism::polling, kernel::mechanism::infinite_bandwidth}) {
    const run::result whole = simulated({}, how, true);
    const run::result sampled = simulated({}, how, false);
    EXPECT_EQ(whole.timed, iterations);
    EXPECT_EQ(sampled.timed, run::sampled_iterations);
    expect_results(whole);
    expect_results(sampled);
    EXPECT_NEAR(sampled.run.time_s / whole.run.time_s, 1, 1e-3) << kernel::mechanism_name(how);
    EXPECT_EQ(sampled.run.accesses, whole.run.accesses);
    EXPECT_EQ(sampled.run.remote_transactions, whole.run.remote_transactions);
    EXPECT_EQ(sampled.run.wire.useful, whole.run.wire.useful);
    EXPECT_EQ(sampled.run.wire.protocol, whole.run.wire.protocol);
    EXPECT_EQ(sampled.run.wire.wasted, whole.run.wire.wasted);
  }
}

TEST(sampled_runs, iterations_with_other_work_are_all_simulated) {
  // A sampled run always simulates its first four iterations. Iteration 2 is one of these, and
  // iteration 8 is not.
  for (const std::uint32_t longer : {2U, 8U}) {
    const adding_problem problem{.longer = longer};
    const auto how = kernel::mechanism::bulk_copy;
    const run::result whole = simulated(problem, how, true);
    const run::result asked = simulated(problem, how, false);
    EXPECT_EQ(asked.timed, iterations);
    expect_results(asked);
    EXPECT_EQ(asked.run.time_s, whole.run.time_s);
    EXPECT_EQ(asked.run.accesses, whole.run.accesses);
  }
  // The first iteration may do other work than the later iterations. If no later iteration differs,
  // the run is still sampled.
  EXPECT_EQ(simulated({.longer = 0}, kernel::mechanism::bulk_copy, false).timed,
            run::sampled_iterations);
}

}  // namespace
}  // namespace interlace::on_cpu_tests
