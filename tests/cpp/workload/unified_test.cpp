// The unified programs on both nodes, with every placement, against plain loops.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "base/errors.hpp"
#include "each_node.hpp"
#include "run/unified.hpp"
#include "sim/r9nano.hpp"
#include "workload/random.hpp"

namespace interlace::workload::unified_tests {
namespace {

using kernel::block_placement;
using kernel::page_placement;

std::vector<float> random_floats(std::size_t n, std::uint32_t seed) {
  test::random_numbers random(seed);
  std::vector<float> values(n);
  for (float& v : values) v = 2 * random.unit() - 1;
  return values;
}

// Runs on the host, and on the simulated GPUs with 32 and 64 lanes a warp and every placement; each
// result within `tolerance`.
template <class Data>
void expect_on_all(const Data& data, const std::vector<double>& expected, double tolerance) {
  const auto compare = [&](auto& node, const unified_placement& placement) {
    const auto found = run::run_unified(node, data, placement).values;
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t k = 0; k < found.size(); ++k) ASSERT_NEAR(found[k], expected[k], tolerance);
  };
  for (const std::uint32_t devices : {1U, 3U}) {
    test::on_each_node(devices, devices == 1 ? 32 : 64, [&](auto& node) { compare(node, {}); });
  }
  const unified_placement placements[] = {
      {page_placement{}, block_placement::round_robin},
      {page_placement::contiguous(), block_placement::contiguous},
      {page_placement::on(3), block_placement::contiguous}};
  for (const unified_placement& placement : placements) {
    sim::node node(test::r9nano(), 4, [] {});
    compare(node, placement);
  }
}

template <class Data>
std::string refusal(const Data& data) {
  host::node node({.devices = 1, .warp_width = 32, .checks = false});
  try {
    run::run_unified(node, data, {});
  } catch (const usage_error& e) {
    return e.what();
  }
  return "";
}

TEST(unified_programs, fir) {
  fir_data data{random_floats(1000, 1), random_floats(16, 2), random_floats(16, 3)};
  std::vector<double> expected(1000);
  for (std::size_t t = 0; t < 1000; ++t) {
    for (std::size_t i = 0; i < 16; ++i) {
      expected[t] += static_cast<double>(data.coefficients[i]) *
                     static_cast<double>(t >= i ? data.input[t - i] : data.history[16 + t - i]);
    }
  }
  expect_on_all(data, expected, 1e-5);
  data.history.pop_back();
  EXPECT_EQ(refusal(data), "a filter needs samples, and as much history as coefficients");
}

TEST(unified_programs, matrix_transpose) {
  constexpr std::uint32_t width = 192;
  const transpose_data data{width, random_floats(width * width, 4)};
  std::vector<double> expected(data.input.size());
  for (std::size_t r = 0; r < width; ++r) {
    for (std::size_t c = 0; c < width; ++c) expected[c * width + r] = data.input[r * width + c];
  }
  expect_on_all(data, expected, 0);
  EXPECT_EQ(refusal(transpose_data{100, random_floats(10000, 4)}),
            "a matrix of width 100 is not transposed; give a multiple of 64");
}

TEST(unified_programs, matrix_multiply) {
  const multiply_data data{64, 32, 96, random_floats(64 * 32, 5), random_floats(32 * 96, 6)};
  std::vector<double> expected(64 * 96);
  for (std::size_t r = 0; r < 64; ++r) {
    for (std::size_t c = 0; c < 96; ++c) {
      for (std::size_t k = 0; k < 32; ++k) {
        expected[r * 96 + c] +=
            static_cast<double>(data.a[r * 32 + k]) * static_cast<double>(data.b[k * 96 + c]);
      }
    }
  }
  expect_on_all(data, expected, 1e-5);
  EXPECT_EQ(refusal(multiply_data{64, 33, 96, {}, {}}),
            "matrices of 33 rows or columns are not multiplied; give multiples of 32");
}

TEST(unified_programs, atax) {
  const atax_data data{70, 300, random_floats(70 * 300, 7), random_floats(300, 8)};
  std::vector<double> expected(300);
  for (std::size_t r = 0; r < 70; ++r) {
    double sum = 0;
    for (std::size_t c = 0; c < 300; ++c) {
      sum += static_cast<double>(data.matrix[r * 300 + c]) * static_cast<double>(data.x[c]);
    }
    for (std::size_t c = 0; c < 300; ++c) {
      expected[c] += static_cast<double>(data.matrix[r * 300 + c]) * sum;
    }
  }
  expect_on_all(data, expected, 1e-3);
  EXPECT_EQ(refusal(atax_data{70, 300, data.matrix, random_floats(70, 8)}),
            "atax needs a matrix and a vector with an element for each of its columns");
}

TEST(unified_programs, sparse_product) {
  sparse_data data;
  data.vector = random_floats(500, 9);
  data.offsets.push_back(0);
  for (std::uint32_t r = 0; r < 500; ++r) {
    for (std::uint32_t k = 0; k < r * 7 % 40; ++k) data.columns.push_back((r * 31 + k * 17) % 500);
    data.offsets.push_back(static_cast<std::uint32_t>(data.columns.size()));
  }
  data.values = random_floats(data.columns.size(), 10);
  std::vector<double> expected(500);
  for (std::size_t r = 0; r < 500; ++r) {
    for (std::uint32_t e = data.offsets[r]; e < data.offsets[r + 1]; ++e) {
      expected[r] +=
          static_cast<double>(data.values[e]) * static_cast<double>(data.vector[data.columns[e]]);
    }
  }
  expect_on_all(data, expected, 1e-5);
  data.columns[3] = 500;
  EXPECT_EQ(refusal(data), "offsets, columns, values and vector are not those of a sparse product");
}

TEST(unified_programs, bicg) {
  const bicg_data data{90, 70, random_floats(90 * 70, 13), random_floats(70, 14),
                       random_floats(90, 15)};
  std::vector<double> expected(160);
  for (std::size_t r = 0; r < 90; ++r) {
    for (std::size_t c = 0; c < 70; ++c) {
      const double a = data.matrix[r * 70 + c];
      expected[r] += a * static_cast<double>(data.p[c]);
      expected[90 + c] += a * static_cast<double>(data.r[r]);
    }
  }
  expect_on_all(data, expected, 1e-4);
  EXPECT_EQ(refusal(bicg_data{70, 90, data.matrix, data.p, data.r}),
            "bicg needs a matrix and vectors with an element for each of its columns and rows");
}

TEST(unified_programs, bitonic_sort) {
  test::random_numbers random(16);
  sort_data data;
  for (std::uint32_t k = 0; k < 1024; ++k) data.keys.push_back(random.below(500));
  std::vector<double> expected(data.keys.begin(), data.keys.end());
  std::sort(expected.begin(), expected.end());
  expect_on_all(data, expected, 0);
  data.keys.pop_back();
  EXPECT_EQ(refusal(data), "1023 keys are not sorted; give a power of two");
}

// FIPS 197, appendix C.3, and the first words of the key schedule in A.3.
TEST(unified_programs, aes) {
  aes_data data;
  std::vector<double> expected;
  constexpr std::uint8_t cipher[] = {0x8e, 0xa2, 0xb7, 0xca, 0x51, 0x67, 0x45, 0xbf,
                                     0xea, 0xfc, 0x49, 0x90, 0x4b, 0x49, 0x60, 0x89};
  for (std::uint8_t k = 0; k < 32; ++k) data.key.push_back(k);
  for (int block = 0; block < 70; ++block) {
    for (std::uint8_t k = 0; k < 16; ++k) {
      data.text.push_back(static_cast<std::uint8_t>(k * 0x11));
      expected.push_back(cipher[k]);
    }
  }
  expect_on_all(data, expected, 0);
  EXPECT_EQ(aes_substitutions()[0x53], 0xed);  // section 5.1.1
  const auto keys =
      aes_round_keys({0x60, 0x3d, 0xeb, 0x10, 0x15, 0xca, 0x71, 0xbe, 0x2b, 0x73, 0xae,
                      0xf0, 0x85, 0x7d, 0x77, 0x81, 0x1f, 0x35, 0x2c, 0x07, 0x3b, 0x61,
                      0x08, 0xd7, 0x2d, 0x98, 0x10, 0xa3, 0x09, 0x14, 0xdf, 0xf4});
  EXPECT_EQ(keys.size(), 240U);
  EXPECT_EQ((std::vector<std::uint8_t>(keys.begin() + 32, keys.begin() + 36)),
            (std::vector<std::uint8_t>{0x9b, 0xa3, 0x54, 0x11}));
  EXPECT_EQ((std::vector<std::uint8_t>(keys.end() - 4, keys.end())),
            (std::vector<std::uint8_t>{0x70, 0x6c, 0x63, 0x1e}));
  data.key.pop_back();
  EXPECT_EQ(refusal(data),
            "AES-256 takes blocks of 16 bytes and a key of 32; there are 1120 and 31 bytes");
}

// What MGPUSim (24a2205) printed for the same program, sizes and placement: accesses of the vector
// L1, and remote reads and writes.
TEST(unified_programs, atax_has_the_accesses_of_mgpusim) {
  const atax_data data{512, 512, random_floats(512 * 512, 11), random_floats(512, 12)};
  sim::node node(test::r9nano(), 4, [] {});
  const auto c = run::run_unified(node, data, {}).run.loads;
  EXPECT_EQ(c.vector_accesses, 319552U);
  EXPECT_EQ(c.remote_stores, 24576U);
  EXPECT_NEAR(static_cast<double>(c.requests), 211088, 2111);
}

}  // namespace
}  // namespace interlace::workload::unified_tests
