// Compares the results of Jacobi on a ring with plain loops in single precision, bit for bit.
#include "workload/halo_jacobi.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "each_node.hpp"
#include "interlace/run/iterate.hpp"

namespace interlace::halo_jacobi_tests {
namespace {

using kernel::mechanism;
using workload::halo_jacobi_grid;

struct expected {
  std::vector<float> values;
  double residual = 0;
};

// Computes the expected grid with the loops of the definition. These loops have their own index
// arithmetic.
expected after(const halo_jacobi_grid& grid, std::uint32_t iterations) {
  const std::uint64_t columns = grid.columns;
  expected found;
  for (std::uint64_t i = 0; i < grid.points(); ++i) {
    const std::uint64_t mixed = i / columns * 7919 + i % columns * 104729;
    found.values.push_back(static_cast<float>(mixed % 1021) * 0x1p-10F);
  }
  for (std::uint32_t k = 0; k < iterations; ++k) {
    const std::vector<float> old = found.values;
    found.residual = 0;
    for (std::uint64_t i = 0; i < grid.points(); ++i) {
      if (i % columns == 0 || i % columns == columns - 1) continue;
      const float up = old[(i + grid.points() - columns) % grid.points()];
      const float down = old[(i + columns) % grid.points()];
      found.values[i] = 0.25F * (old[i + 1] + old[i - 1] + down + up);
      const double change = double{found.values[i]} - double{old[i]};
      found.residual += change * change;
    }
  }
  found.residual = std::sqrt(found.residual);
  return found;
}

kernel::region_options cut(const std::vector<std::uint64_t>& rows, std::uint64_t columns,
                           mechanism how) {
  kernel::region_options o;
  o.mechanism = how;
  o.split_ranges = 3;
  o.chunk_bytes = 4096;
  for (const std::uint64_t row : rows) o.boundaries.push_back(row * columns);
  return o;
}

std::vector<std::uint64_t> even(std::uint64_t rows, std::uint32_t devices) {
  std::vector<std::uint64_t> found;
  for (std::uint32_t d = 0; d <= devices; ++d) found.push_back(rows * d / devices);
  return found;
}

// Whether a device has this row: as one of its own rows, or as a row next to them.
bool holds(const std::vector<std::uint64_t>& rows, std::uint32_t d, std::uint64_t row) {
  const std::uint64_t all = rows.back();
  for (std::uint64_t own = rows[d]; own < rows[d + 1]; ++own) {
    if (row == own || row == (own + 1) % all || row == (own + all - 1) % all) return true;
  }
  return false;
}

// Runs twice from the start. The rows that a device does not receive must stay unchanged.
template <class Node>
void compare(Node& node, const halo_jacobi_grid& grid, const std::vector<std::uint64_t>& rows,
             mechanism how, std::uint32_t iterations) {
  const expected right = after(grid, iterations);
  const std::vector<float> start = after(grid, 0).values;
  workload::halo_jacobi work(node, grid, cut(rows, grid.columns, how));
  for (int round = 0; round < 2; ++round) {
    work.reset();
    node.run([&] {
      for (std::uint32_t k = 0; k < iterations; ++k) work.enqueue_iteration(false);
    });
    EXPECT_NEAR(work.residual(), right.residual, 1e-5 * right.residual);
    for (std::uint32_t d = 0; d < node.devices(); ++d) {
      const auto found = work.result(d);
      ASSERT_EQ(found.size(), grid.points());
      for (std::uint64_t i = 0; i < grid.points(); ++i) {
        if (holds(rows, d, i / grid.columns)) {
          ASSERT_EQ(found[i], right.values[i]) << "point " << i << " on device " << d;
        } else if (how == mechanism::bulk_copy) {
          ASSERT_EQ(found[i], start[i]) << "point " << i << " on device " << d;
        }
      }
    }
  }
}

TEST(halo_jacobi, equals_plain_loops) {
  const halo_jacobi_grid grid{13, 70};
  test::on_every_node([&](auto& node, std::uint32_t devices, std::uint32_t, mechanism how) {
    compare(node, grid, even(grid.rows, devices), how, 3);
  });
}

TEST(halo_jacobi, of_blocks_above_each_other_and_of_the_narrowest_grid) {
  for (const halo_jacobi_grid grid : {halo_jacobi_grid{75, 33}, halo_jacobi_grid{9, 3}}) {
    test::on_each_node(
        2, 32, [&](auto& node) { compare(node, grid, even(grid.rows, 2), mechanism::split, 2); });
  }
}

// A row can be its own neighbour, or go to the same device from both sides. Each device has one row
// or none.
TEST(halo_jacobi, of_thin_parts) {
  for (const std::vector<std::uint64_t>& rows : std::vector<std::vector<std::uint64_t>>{
           {0, 1}, {0, 1, 2}, {0, 1, 2, 3}, {0, 0, 2, 2, 5}, {0, 4, 4}}) {
    const halo_jacobi_grid grid{static_cast<std::uint32_t>(rows.back()), 40};
    test::on_each_node(static_cast<std::uint32_t>(rows.size()) - 1, 32,
                       [&](auto& node) { compare(node, grid, rows, mechanism::inline_stores, 3); });
  }
}

// In each iteration, each of three devices sends two rows.
TEST(halo_jacobi, sends_the_rows_beside_others_and_nothing_else) {
  const halo_jacobi_grid grid{12, 64};
  test::on_each_node(3, 32, [&](auto& node) {
    workload::halo_jacobi work(node, grid, cut(even(12, 3), 64, mechanism::bulk_copy));
    const auto result = node.run([&] {
      for (int k = 0; k < 4; ++k) work.enqueue_iteration(false);
    });
    ASSERT_TRUE(result.wire_known);
    const double rows = 3 * 2 * 64 * sizeof(float);
    EXPECT_GE(result.wire.useful + result.wire.wasted, 4 * rows);
    // These bytes include the bytes of the residual.
    EXPECT_LT(result.wire.useful + result.wire.wasted, 4.5 * rows);
  });
}

// A node that loses data on the way to other devices.
struct lossy {
  host::node& node;

  std::uint32_t devices() const { return node.devices(); }
  template <class T>
  kernel::region<T> create_region(kernel::region_options o) {
    for (auto& to : o.subscribers) to.clear();
    return node.create_region<T>(std::move(o));
  }
  template <class T, combine Op>
  kernel::reduction<T, Op> create_reduction(std::uint64_t n, std::uint32_t copies) {
    return node.create_reduction<T, Op>(n, copies);
  }
  auto view(const auto& of, std::uint32_t device) const { return node.view(of, device); }
  auto front(const auto& of, std::uint32_t device) const { return node.front(of, device); }
  void set_front(const auto& of, const auto& values) { node.set_front(of, values); }
  void upload(const auto& to, const auto& values) { node.upload(to, values); }
  void launch(std::uint32_t device, const auto& kernel, grid shape, const auto& of,
              const kernel::block_mapping& mapping) {
    node.launch(device, kernel, shape, of, mapping);
  }
  void exchange(const auto&... items) { node.exchange(items...); }
};

TEST(halo_jacobi, a_row_that_does_not_arrive_shows) {
  const halo_jacobi_grid grid{6, 40};
  host::node node({.devices = 2, .warp_width = 32, .checks = false});
  lossy around{node};
  workload::halo_jacobi work(around, grid, cut(even(6, 2), 40, mechanism::bulk_copy));
  node.run([&] {
    for (int k = 0; k < 2; ++k) work.enqueue_iteration(false);
  });
  for (std::uint32_t d = 0; d < 2; ++d) {
    const auto found = work.result(d);
    const std::size_t first = 3 * d * 40U;  // a point in one of the three rows that the device owns
    EXPECT_TRUE(std::isnan(found[first + 1]));
    EXPECT_FALSE(std::isnan(found[first + 40 + 1]));
    EXPECT_TRUE(std::isnan(found[first + 80 + 1]));
  }
  EXPECT_TRUE(std::isnan(work.residual()));
}

TEST(halo_jacobi, stops_at_a_residual) {
  run::request asked;
  asked.boundaries = {0, 3 * 50, 6 * 50};
  asked.iterations = 1000;
  asked.tolerance = 0.5;
  const workload::halo_jacobi_problem problem{{6, 50}};
  host::node node({.devices = 2, .warp_width = 32, .checks = true});
  auto work = problem.on(node, run::region_of(asked));
  const run::result found = run::iterate(node, work, asked);
  EXPECT_LE(found.residual, 0.5);
  EXPECT_GT(found.iterations, 5U);
  EXPECT_LT(found.iterations, 1000U);
  EXPECT_NEAR(found.residual, after(problem.grid, found.iterations).residual, 1e-5);
}

TEST(halo_jacobi, refuses_what_is_no_grid) {
  host::node node({.devices = 2, .warp_width = 32, .checks = true});
  for (const halo_jacobi_grid grid : {halo_jacobi_grid{0, 5}, halo_jacobi_grid{4, 2}}) {
    EXPECT_THROW(workload::halo_jacobi(node, grid, cut({0, 1, 4}, 5, mechanism::bulk_copy)),
                 usage_error);
  }
  EXPECT_THROW(workload::halo_jacobi(node, {4, 6}, cut({0, 1, 4}, 5, mechanism::bulk_copy)),
               model_error);
}

TEST(multi_path, copies_at_the_exchange_on_host_and_is_not_simulated) {
  const halo_jacobi_grid grid{10, 45};
  host::node host({.devices = 3, .warp_width = 32, .checks = true});
  compare(host, grid, even(10, 3), mechanism::multi_path, 3);
  sim::node sim(test::meshed(3, machine::protocol_kind::nvlink2), 3, [] {});
  try {
    workload::halo_jacobi(sim, grid, cut(even(10, 3), 45, mechanism::multi_path));
    FAIL() << "nothing was refused";
  } catch (const usage_error& error) {
    EXPECT_EQ(std::string(error.what()),
              "multi-path is measured on real GPUs; leave it out, and simulate such copies with "
              "interlace plan --simulate");
  }
}

}  // namespace
}  // namespace interlace::halo_jacobi_tests
