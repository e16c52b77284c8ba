// Runs the probe kernels on the reference node and on the simulated node. The tests compare the
// results with plain loops.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "../probes/bitonic.hpp"
#include "../probes/spmv.hpp"
#include "../probes/stencil.hpp"
#include "each_node.hpp"

namespace interlace::probes_tests {
namespace {

using kernel::mechanism;

constexpr mechanism mechanisms[] = {mechanism::bulk_copy, mechanism::split,
                                    mechanism::inline_stores};

std::vector<float> random_values(std::size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> value(-1, 1);
  std::vector<float> values(n);
  std::generate(values.begin(), values.end(), [&] { return value(random); });
  return values;
}

TEST(probes, stencil) {
  constexpr std::uint32_t columns = 150;
  constexpr std::uint32_t rows = 41;
  const auto start = random_values(std::size_t{columns} * rows, 1);
  const auto expected = probe::stencil_reference(start, columns, rows, 7);
  for (const std::uint32_t devices : {1U, 2U, 4U}) {
    for (const std::uint32_t width : {32U, 64U}) {
      for (const mechanism how : mechanisms) {
        test::on_each_node(devices, width, [&](auto& node) {
          probe::stencil s(node, columns, rows, how);
          s.set(start);
          node.run([&] {
            for (int k = 0; k < 7; ++k) s.enqueue_step();
          });
          EXPECT_EQ(s.result(), expected) << devices << " devices";
        });
      }
    }
  }
}

TEST(probes, bitonic) {
  for (const std::size_t n : {std::size_t{512}, std::size_t{4096}, std::size_t{16384}}) {
    for (const std::uint32_t width : {32U, 64U}) {
      std::mt19937 random(static_cast<unsigned>(n));
      std::vector<std::uint32_t> keys(n);
      std::generate(keys.begin(), keys.end(), [&] { return random() % 5000; });
      auto sorted = keys;
      std::sort(sorted.begin(), sorted.end());
      test::on_each_node(1, width, [&](auto& node) {
        auto array = node.template allocate<std::uint32_t>(0, n);
        node.upload(array, keys);
        node.run([&] { probe::enqueue_bitonic_sort(node, 0, array); });
        EXPECT_EQ(node.download(array), sorted);
      });
    }
  }
}

TEST(probes, spmv) {
  const auto a = probe::random_matrix(701, 40, 3);
  const auto x = random_values(a.rows(), 4);
  const auto expected = probe::spmv_reference(a, x);
  for (const std::uint32_t devices : {1U, 2U, 4U}) {
    for (const mechanism how : mechanisms) {
      test::on_each_node(devices, 32, [&](auto& node) {
        probe::spmv s(node, a, how);
        s.set(x);
        node.run([&] { s.enqueue_step(); });
        for (std::uint32_t d = 0; d < devices; ++d) {
          EXPECT_NEAR(s.product(d), expected.product, 1e-3);
          const auto y = s.y(d);
          for (std::uint64_t r = 0; r < a.rows(); ++r) EXPECT_NEAR(y[r], expected.y[r], 1e-4);
        }
      });
    }
  }
}

}  // namespace
}  // namespace interlace::probes_tests
