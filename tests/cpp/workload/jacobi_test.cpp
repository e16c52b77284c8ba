// Compares the Jacobi iteration on the reference node and on the simulated node with a plain loop
// in double precision.
#include "workload/jacobi.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "interlace/host/node.hpp"
#include "interlace/run/iterate.hpp"
#include "interlace/sim/node.hpp"
#include "sim/described.hpp"

namespace interlace::jacobi_tests {
namespace {

using kernel::mechanism;

constexpr mechanism mechanisms[] = {mechanism::bulk_copy, mechanism::split,
                                    mechanism::inline_stores, mechanism::infinite_bandwidth};

struct made_system {
  std::uint64_t rows;
  std::uint32_t half_bandwidth;
  std::vector<float> diagonals;
  std::vector<float> right;

  // Diagonals have elements outside of the matrix. These are NaN, because no kernel may use them.
  made_system(std::uint64_t n, std::uint32_t half, unsigned seed)
      : rows(n),
        half_bandwidth(half),
        diagonals((2 * half + 1) * n, std::numeric_limits<float>::quiet_NaN()),
        right(n) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> value(-1, 1);
    for (std::uint64_t i = 0; i < n; ++i) {
      right[i] = value(random);
      float others = 0;
      for (std::int64_t k = -std::int64_t{half}; k <= half; ++k) {
        if (k == 0 || !inside(i, k)) continue;
        at(i, k) = value(random);
        others += std::abs(at(i, k));
      }
      at(i, 0) = others / 0.8F + 0.5F;
    }
  }

  bool inside(std::uint64_t i, std::int64_t k) const {
    const auto j = static_cast<std::int64_t>(i) + k;
    return j >= 0 && j < static_cast<std::int64_t>(rows);
  }
  float& at(std::uint64_t i, std::int64_t k) {
    return diagonals[static_cast<std::uint64_t>(half_bandwidth + k) * rows + i];
  }
  workload::banded_system view() const {
    return {rows, half_bandwidth, diagonals.data(), right.data()};
  }

  // Returns x after `iterations` iterations that start from 0, and the sum of |x' - x| in the last
  // iteration.
  std::pair<std::vector<double>, double> reference(std::uint32_t iterations) {
    std::vector<double> x(rows, 0.0);
    double change = 0;
    for (std::uint32_t n = 0; n < iterations; ++n) {
      std::vector<double> next(rows);
      change = 0;
      for (std::uint64_t i = 0; i < rows; ++i) {
        double rest = right[i];
        for (std::int64_t k = -std::int64_t{half_bandwidth}; k <= half_bandwidth; ++k) {
          if (k == 0 || !inside(i, k)) continue;
          rest -= double{at(i, k)} * x[i + static_cast<std::uint64_t>(k)];
        }
        next[i] = rest / double{at(i, 0)};
        change += std::abs(next[i] - x[i]);
      }
      x = next;
    }
    return {x, change};
  }
};

std::vector<std::uint64_t> even_cut(std::uint64_t rows, std::uint32_t devices) {
  std::vector<std::uint64_t> cut;
  for (std::uint32_t d = 0; d <= devices; ++d) cut.push_back(rows * d / devices);
  return cut;
}

run::request asked(std::vector<std::uint64_t> boundaries, mechanism how) {
  run::request r;
  r.boundaries = std::move(boundaries);
  r.mechanism = how;
  r.split_ranges = 3;
  r.iterations = 6;
  return r;
}

// Compares the values that a device must have: those of its own rows, and those of rows of other
// devices within its band.
void expect_right(const run::result& found, const run::request& r, made_system& system, bool halo) {
  const auto [x, change] = system.reference(found.iterations);
  for (std::uint32_t d = 0; d < r.gpus(); ++d) {
    const std::uint64_t half = system.half_bandwidth;
    std::uint64_t begin = 0;
    std::uint64_t end = system.rows;
    if (halo && r.boundaries[d] == r.boundaries[d + 1]) end = 0;
    if (halo && end != 0) {
      begin = r.boundaries[d] - std::min(r.boundaries[d], half);
      end = std::min(end, r.boundaries[d + 1] + half);
    }
    ASSERT_EQ(found.values[d].size(), system.rows);
    for (std::uint64_t i = begin; i < end; ++i) {
      ASSERT_NEAR(found.values[d][i], x[i], 2e-6) << "row " << i << " on device " << d;
    }
  }
  if (r.tolerance > 0) {
    EXPECT_NEAR(found.residual, change, 1e-5 * change + 1e-5);
  }
}

template <class Body>
void on_each_node(std::uint32_t devices, std::uint32_t width, Body body) {
  {
    SCOPED_TRACE("host");
    host::node node({.devices = devices, .warp_width = width, .checks = true});
    body(node);
  }
  {
    SCOPED_TRACE("sim");
    auto machine = test::meshed(devices, machine::protocol_kind::nvlink2);
    machine.gpu.warp_width = width;
    sim::node node(machine, devices, [] {});
    body(node);
  }
}

template <class Node>
run::result solve(Node& node, const made_system& system, const run::request& r, bool halo) {
  const workload::jacobi_problem problem{system.view(), halo};
  auto work = problem.on(node, run::region_of(r));
  auto found = run::iterate(node, work, r);
  run::keep_values(node, work, found);
  return found;
}

TEST(jacobi, equals_a_double_loop) {
  unsigned seed = 0;
  for (const std::uint32_t devices : {1U, 2U, 3U, 4U}) {
    for (const mechanism how : mechanisms) {
      for (const bool halo : {false, true}) {
        ++seed;
        made_system system(900 + 37 * seed, seed % 7, seed);
        const auto r = asked(even_cut(system.rows, devices), how);
        on_each_node(devices, seed % 3 == 0 ? 64 : 32, [&](auto& node) {
          SCOPED_TRACE(std::string(kernel::mechanism_name(how)) + ", seed " + std::to_string(seed));
          expect_right(solve(node, system, r, halo), r, system, halo);
        });
      }
    }
  }
}

TEST(jacobi, wide_bands_narrow_parts) {
  // Some parts are shorter than the band, some have one row, and some are empty.
  const std::vector<std::vector<std::uint64_t>> cuts = {
      {0, 700}, {0, 20, 700}, {0, 350, 351, 700}, {0, 0, 300, 700}, {0, 5, 10, 690, 700}};
  unsigned seed = 100;
  for (const auto& cut : cuts) {
    for (const mechanism how : mechanisms) {
      for (const bool halo : {false, true}) {
        made_system system(700, 40, ++seed);
        const auto r = asked(cut, how);
        on_each_node(r.gpus(), 32, [&](auto& node) {
          SCOPED_TRACE(std::string(kernel::mechanism_name(how)) + ", seed " + std::to_string(seed));
          expect_right(solve(node, system, r, halo), r, system, halo);
        });
      }
    }
  }
}

TEST(jacobi, a_halo_of_many_devices_keeps_to_the_ranges_that_there_are) {
  // Every part is shorter than the band, so every device needs the parts of many other devices.
  made_system system(64, 17, 5);
  for (const mechanism how : mechanisms) {
    const auto r = asked(even_cut(64, max_devices), how);
    host::node node({.devices = max_devices, .warp_width = 32, .checks = true});
    expect_right(solve(node, system, r, true), r, system, true);
  }
  // The last part is longer than all other parts together. Each device without this part needs a
  // different range of the last part.
  std::vector<std::uint64_t> cut;
  for (std::uint64_t d = 0; d < max_devices; ++d) cut.push_back(2 * d);
  cut.push_back(64);
  const auto r = asked(cut, mechanism::bulk_copy);
  host::node node({.devices = max_devices, .warp_width = 32, .checks = true});
  expect_right(solve(node, system, r, true), r, system, true);
}

TEST(jacobi, a_halo_sends_what_is_read_and_nothing_else) {
  const std::uint32_t half = 5;
  made_system system(1000, half, 7);
  for (const std::uint32_t devices : {2U, 4U}) {
    const auto r = asked(even_cut(1000, devices), mechanism::bulk_copy);
    on_each_node(devices, 32, [&](auto& node) {
      const auto wire = solve(node, system, r, true).run.wire;
      EXPECT_EQ(wire.useful, 2.0 * (devices - 1) * half * sizeof(float) * r.iterations);
      EXPECT_EQ(wire.wasted, 0);
    });
    on_each_node(devices, 32, [&](auto& node) {
      const auto wire = solve(node, system, r, false).run.wire;
      EXPECT_EQ(wire.useful, 2.0 * (devices - 1) * half * sizeof(float) * r.iterations);
      EXPECT_EQ(wire.useful + wire.wasted, 1000.0 * (devices - 1) * sizeof(float) * r.iterations);
    });
  }
}

TEST(jacobi, a_tolerance_ends_it_and_reset_begins_anew) {
  made_system system(800, 3, 11);
  auto r = asked(even_cut(800, 3), mechanism::inline_stores);
  r.iterations = 500;
  r.tolerance = 1e-2;
  on_each_node(3, 32, [&](auto& node) {
    const workload::jacobi_problem problem{system.view(), true};
    auto work = problem.on(node, run::region_of(r));
    auto first = run::iterate(node, work, r);
    run::keep_values(node, work, first);
    EXPECT_LE(first.residual, r.tolerance);
    EXPECT_GT(system.reference(first.iterations - run::iterations_per_look).second, r.tolerance);
    expect_right(first, r, system, true);
    work.reset();
    auto second = run::iterate(node, work, r);
    run::keep_values(node, work, second);
    EXPECT_EQ(second.iterations, first.iterations);
    EXPECT_EQ(second.values, first.values);
    EXPECT_NEAR(second.residual, first.residual, 1e-12);
  });
}

TEST(jacobi, too_large_a_matrix_is_refused) {
  host::node node({.devices = 1, .warp_width = 32, .checks = false});
  kernel::region_options options;
  options.boundaries = {0, 1U << 16U};
  const workload::banded_system system{1U << 16U, 1U << 15U, nullptr, nullptr};
  EXPECT_THROW((workload::jacobi<host::node>(node, system, options, false)), usage_error);
}

}  // namespace
}  // namespace interlace::jacobi_tests
