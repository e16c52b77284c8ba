// With every mechanism, Jacobi on a ring on GPUs must give the same results as plain loops, bit for
// bit. For multi-path, the tests also use every executor, poisoned rows and late devices.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cuda/transfer/nccl_library.hpp"
#include "delay.cuh"
#include "gpu.hpp"
#include "interlace/run/workload.hpp"
#include "workload/halo_jacobi.hpp"

namespace interlace::halo_jacobi_tests {
namespace {

using gpu_test::delay;
using gpu_test::random_at;
using kernel::mechanism;
using workload::halo_jacobi_grid;

class halo_jacobi_test : public testing::TestWithParam<std::uint32_t> {
 protected:
  void SetUp() override { INTERLACE_NEED_GPUS(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(all, halo_jacobi_test, testing::Values(1U, 2U, 3U, 4U),
                         testing::PrintToStringParamName());

class halo_of_several_test : public halo_jacobi_test {};
INSTANTIATE_TEST_SUITE_P(all, halo_of_several_test, testing::Values(2U, 3U, 4U),
                         testing::PrintToStringParamName());

std::vector<float> after(const halo_jacobi_grid& grid, std::uint32_t iterations) {
  const std::uint64_t columns = grid.columns;
  std::vector<float> values;
  for (std::uint64_t i = 0; i < grid.points(); ++i) {
    const std::uint64_t mixed = i / columns * 7919 + i % columns * 104729;
    values.push_back(static_cast<float>(mixed % 1021) / 1024.0F);
  }
  for (std::uint32_t k = 0; k < iterations; ++k) {
    const std::vector<float> old = values;
    for (std::uint64_t i = 0; i < grid.points(); ++i) {
      if (i % columns == 0 || i % columns == columns - 1) continue;
      const float up = old[(i + grid.points() - columns) % grid.points()];
      const float down = old[(i + columns) % grid.points()];
      values[i] = 0.25F * (old[i + 1] + old[i - 1] + down + up);
    }
  }
  return values;
}

std::vector<std::uint64_t> even_cut(const halo_jacobi_grid& grid, std::uint32_t devices) {
  std::vector<std::uint64_t> cut;
  for (std::uint64_t d = 0; d <= devices; ++d) {
    cut.push_back(grid.rows * d / devices * grid.columns);
  }
  return cut;
}

// Compares the rows that a device owns, and the two rows next to them.
void expect_right(const std::vector<float>& found, const std::vector<float>& expected,
                  const halo_jacobi_grid& grid, const std::vector<std::uint64_t>& cut,
                  std::uint32_t d) {
  ASSERT_EQ(found.size(), grid.points());
  const std::uint64_t held = std::min(cut[d + 1] - cut[d] + 2 * grid.columns, grid.points());
  std::uint64_t i = (cut[d] + grid.points() - grid.columns) % grid.points();
  for (std::uint64_t k = 0; k < held; ++k) {
    if (!(found[i] == expected[i])) {  // a NaN counts as different; the macro would be slow
      ASSERT_EQ(found[i], expected[i]) << "point " << i << " on device " << d;
    }
    if (++i == grid.points()) i = 0;
  }
}

bool nccl_is_here() {
  try {
    cuda::nccl_library::of_process();
    return true;
  } catch (const usage_error&) {
    return false;
  }
}

// Some messages have an odd number of elements and are below the copy engine's threshold. Other
// messages are far above the threshold.
TEST_P(halo_jacobi_test, equals_plain_loops) {
  std::vector<mechanism> all{mechanism::bulk_copy,  mechanism::multi_path,
                             mechanism::split,      mechanism::inline_stores,
                             mechanism::polling,    mechanism::device_launch,
                             mechanism::copy_engine};
  if (nccl_is_here() && gpu_test::why_not_distinct(GetParam()).empty()) {
    all.push_back(mechanism::nccl);
  }
  for (const halo_jacobi_grid grid : {halo_jacobi_grid{13, 71}, halo_jacobi_grid{8, 600'011}}) {
    // The columns are the same on all devices.
    static std::map<std::uint64_t, std::vector<float>> of_columns;
    std::vector<float>& expected = of_columns[grid.columns];
    if (expected.empty()) expected = after(grid, 3);
    const workload::halo_jacobi_problem problem{grid};
    run::request asked;
    asked.agent_threads = gpu_test::agent_threads(asked.agent_threads);
    asked.boundaries = even_cut(grid, GetParam());
    asked.iterations = 3;
    asked.share_gpu = gpu_test::shares_gpus();
    for (const mechanism how : all) {
      SCOPED_TRACE(std::string(kernel::mechanism_name(how)) + ", " + std::to_string(grid.columns) +
                   " columns");
      asked.mechanism = how;
      const run::measurement measured = run::on_cuda(problem, asked, 1, 2);
      const run::result& found = measured.result;
      for (std::uint32_t d = 0; d < GetParam(); ++d) {
        expect_right(found.values[d], expected, grid, asked.boundaries, d);
      }
      if (kernel::copies_behind_kernels(how) && GetParam() > 1) {
        EXPECT_GT(found.run.copy_s, 0);
        EXPECT_LT(found.run.copy_s, found.run.time_s);
      }
      const bool batches = how == mechanism::multi_path && GetParam() > 1;
      EXPECT_EQ(std::any_of(measured.remarks.begin(), measured.remarks.end(),
                            [](const std::string& remark) {
                              return remark.starts_with("the copy engine ran");
                            }),
                batches);
    }
  }
}

struct way {
  copy_executor executor;
  std::uint64_t threshold_bytes;
  std::uint32_t chunks;
};

TEST_P(halo_jacobi_test, multi_path_by_every_executor_with_late_devices) {
  const std::uint32_t devices = GetParam();
  const halo_jacobi_grid grid{2 * devices + 1, 300007};
  const auto cut = even_cut(grid, devices);
  kernel::region_options options;
  options.boundaries = cut;
  options.mechanism = mechanism::multi_path;
  // After an odd number of iterations, the buffers are swapped.
  constexpr std::uint32_t iterations = 5;
  const std::vector<float> expected = after(grid, iterations);
  for (const way& by : {way{copy_executor::direct, 1, 0}, way{copy_executor::streams, 4096, 0},
                        way{copy_executor::streams, 4096, 4}, way{copy_executor::graphs, 4096, 0},
                        way{copy_executor::graphs, 4096, 4}}) {
    SCOPED_TRACE("executor " + std::to_string(static_cast<int>(by.executor)) + ", " +
                 std::to_string(by.chunks) + " chunks");
    auto on = gpu_test::options_for(devices);
    on.copies = copy_options{};
    on.copies->executor = by.executor;
    on.copies->threshold_bytes = by.threshold_bytes;
    on.copies->chunks = by.chunks;
    cuda::node node(on);
    workload::halo_jacobi work(node, grid, options);
    for (std::uint32_t run = 0; run < 4; ++run) {
      work.reset();
      cuda::run_options how;
      how.detail = run == 3;
      const auto result = node.run(
          [&] {
            for (std::uint32_t k = 0; k < iterations; ++k) {
              for (std::uint32_t d = 0; d < devices; ++d) {
                const std::uint64_t seed = 16 * (run * iterations + k) + d;
                if (random_at(5, seed) % 3 != 0) continue;
                node.launch(d, delay{random_at(6, seed) % 300'000}, {1, delay::threads, 0});
              }
              work.enqueue_iteration(false);
            }
          },
          how);
      EXPECT_GT(result.time_s, 0);
      for (std::uint32_t d = 0; d < devices; ++d) {
        expect_right(work.result(d), expected, grid, cut, d);
      }
      if (!how.detail) continue;
      const auto bars =
          std::count_if(result.timeline.begin(), result.timeline.end(),
                        [](const kernel::timeline_event& e) { return e.name == "multi-path"; });
      EXPECT_EQ(bars, devices == 1 ? 0 : how.timeline_epochs * devices);
    }
  }
}

// If a row is not sent, the row stays NaN, and all results that depend on the row become NaN.
TEST_P(halo_of_several_test, a_row_that_does_not_arrive_shows) {
  const std::uint32_t devices = GetParam();
  const halo_jacobi_grid grid{3 * devices, 1000};
  kernel::region_options options;
  options.boundaries = even_cut(grid, devices);
  options.transfers = false;
  for (const mechanism how : {mechanism::bulk_copy, mechanism::multi_path}) {
    options.mechanism = how;
    cuda::node node(gpu_test::options_for(devices));
    workload::halo_jacobi work(node, grid, options);
    node.run([&] {
      work.enqueue_iteration(false);
      work.enqueue_iteration(false);
    });
    for (std::uint32_t d = 0; d < devices; ++d) {
      const auto found = work.result(d);
      const std::uint64_t own = options.boundaries[d];
      EXPECT_TRUE(std::isnan(found[own + 1]));
      EXPECT_TRUE(std::isnan(found[own + 2 * grid.columns + 1]));
      EXPECT_FALSE(std::isnan(found[own + grid.columns + 1]));
    }
  }
}

// Exchanges by multi-path and by bulk-copy alternate in one run.
TEST_P(halo_jacobi_test, multi_path_stands_beside_bulk_copy) {
  const std::uint32_t devices = GetParam();
  const halo_jacobi_grid grid{2 * devices, 70001};
  const auto cut = even_cut(grid, devices);
  const std::vector<float> expected = after(grid, 4);
  cuda::node node(gpu_test::options_for(devices));
  kernel::region_options options;
  options.boundaries = cut;
  options.mechanism = mechanism::multi_path;
  workload::halo_jacobi first(node, grid, options);
  options.mechanism = mechanism::bulk_copy;
  workload::halo_jacobi second(node, grid, options);
  node.run([&] {
    for (int k = 0; k < 4; ++k) {
      first.enqueue_iteration(false);
      second.enqueue_iteration(false);
    }
  });
  for (std::uint32_t d = 0; d < devices; ++d) {
    expect_right(first.result(d), expected, grid, cut, d);
    expect_right(second.result(d), expected, grid, cut, d);
  }
}

}  // namespace
}  // namespace interlace::halo_jacobi_tests
