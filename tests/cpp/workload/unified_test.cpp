// Runs the unified programs on the host node and on the simulated node, with every placement.
// Compares the results with plain loops.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "each_node.hpp"
#include "interlace/base/errors.hpp"
#include "run/unified.hpp"
#include "sim/r9nano.hpp"
#include "workload/random.hpp"
#include "workload/unified/aes.hpp"
#include "workload/unified/atax.hpp"
#include "workload/unified/bicg.hpp"
#include "workload/unified/bitonic_sort.hpp"
#include "workload/unified/breadth_first.hpp"
#include "workload/unified/convolution.hpp"
#include "workload/unified/fir.hpp"
#include "workload/unified/kmeans.hpp"
#include "workload/unified/matrix_multiply.hpp"
#include "workload/unified/matrix_transpose.hpp"
#include "workload/unified/rank_iteration.hpp"
#include "workload/unified/sparse_product.hpp"
#include "workload/unified/stencil_2d.hpp"

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

// Runs a program on the host node, and on simulated GPUs with every placement and with warps of 32
// and of 64 lanes. Each result must be within `tolerance`.
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
  fir_problem data{random_floats(1000, 1), random_floats(16, 2), random_floats(16, 3)};
  std::vector<double> expected(1000);
  for (std::size_t t = 0; t < 1000; ++t) {
    for (std::size_t i = 0; i < 16; ++i) {
      expected[t] += static_cast<double>(data.coefficients[i]) *
                     static_cast<double>(t >= i ? data.input[t - i] : data.history[16 + t - i]);
    }
  }
  expect_on_all(data, expected, 1e-5);
  data.history.pop_back();
  EXPECT_EQ(refusal(data),
            "a filter needs samples, and one sample of history for each coefficient");
}

TEST(unified_programs, matrix_transpose) {
  constexpr std::uint32_t width = 192;
  const matrix_transpose_problem data{width, random_floats(width * width, 4)};
  std::vector<double> expected(data.input.size());
  for (std::size_t r = 0; r < width; ++r) {
    for (std::size_t c = 0; c < width; ++c) expected[c * width + r] = data.input[r * width + c];
  }
  expect_on_all(data, expected, 0);
  EXPECT_EQ(refusal(matrix_transpose_problem{100, random_floats(10000, 4)}),
            "a matrix of width 100 cannot be transposed; give a multiple of 64");
}

TEST(unified_programs, matrix_multiply) {
  const matrix_multiply_problem data{64, 32, 96, random_floats(64 * 32, 5),
                                     random_floats(32 * 96, 6)};
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
  EXPECT_EQ(refusal(matrix_multiply_problem{64, 33, 96, {}, {}}),
            "matrices of 33 rows or columns cannot be multiplied; give multiples of 32");
}

TEST(unified_programs, atax) {
  const atax_problem data{70, 300, random_floats(70 * 300, 7), random_floats(300, 8)};
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
  EXPECT_EQ(refusal(atax_problem{70, 300, data.matrix, random_floats(70, 8)}),
            "atax needs a matrix and a vector with an element for each of its columns");
}

TEST(unified_programs, sparse_product) {
  sparse_product_problem data;
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
  EXPECT_EQ(refusal(data), "offsets, columns, values and vector do not fit together");
}

TEST(unified_programs, bicg) {
  const bicg_problem data{90, 70, random_floats(90 * 70, 13), random_floats(70, 14),
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
  EXPECT_EQ(refusal(bicg_problem{70, 90, data.matrix, data.p, data.r}),
            "bicg needs a matrix and vectors with an element for each of its columns and rows");
}

TEST(unified_programs, bitonic_sort) {
  test::random_numbers random(16);
  bitonic_sort_problem data;
  for (std::uint32_t k = 0; k < 1024; ++k) data.keys.push_back(random.below(500));
  std::vector<double> expected(data.keys.begin(), data.keys.end());
  std::sort(expected.begin(), expected.end());
  expect_on_all(data, expected, 0);
  data.keys.pop_back();
  EXPECT_EQ(refusal(data), "1023 keys cannot be sorted; give a power of two");
}

// The values come from FIPS 197: the example of appendix C.3, and the first words of the key
// schedule of appendix A.3.
TEST(unified_programs, aes) {
  aes_problem data;
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
            "AES-256 takes a text of 16-byte blocks and a key of 32 bytes; the text has 1120 bytes "
            "and the "
            "key 31");
}

// Makes a random graph. Its last vertex has no edges.
breadth_first_problem random_graph(std::uint32_t vertices, std::uint32_t edges,
                                   std::uint32_t seed) {
  test::random_numbers random(seed);
  std::vector<std::vector<std::uint32_t>> of(vertices);
  for (std::uint32_t e = 0; e < edges; ++e) {
    const std::uint32_t from = random.below(vertices - 1);
    of[from].push_back(random.below(vertices - 1));
  }
  breadth_first_problem data;
  data.offsets.push_back(0);
  for (const auto& targets : of) {
    data.targets.insert(data.targets.end(), targets.begin(), targets.end());
    data.offsets.push_back(static_cast<std::uint32_t>(data.targets.size()));
  }
  return data;
}

TEST(unified_programs, breadth_first) {
  breadth_first_problem data = random_graph(1500, 3000, 17);
  data.source = 3;
  std::vector<double> expected(1500, -1);
  expected[3] = 0;
  std::vector<std::uint32_t> reached{3};
  for (std::size_t k = 0; k < reached.size(); ++k) {
    const std::uint32_t v = reached[k];
    for (std::uint32_t e = data.offsets[v]; e < data.offsets[v + 1]; ++e) {
      if (expected[data.targets[e]] >= 0) continue;
      expected[data.targets[e]] = expected[v] + 1;
      reached.push_back(data.targets[e]);
    }
  }
  ASSERT_GT(*std::max_element(expected.begin(), expected.end()), 5);
  ASSERT_EQ(expected.back(), -1);
  expect_on_all(data, expected, 0);
  data.source = 1500;
  EXPECT_EQ(refusal(data), "offsets, targets and source do not describe a graph with edges");
}

TEST(unified_programs, rank_iteration) {
  const breadth_first_problem graph = random_graph(300, 20000, 18);
  rank_iteration_problem data{graph.offsets, graph.targets, random_floats(20000, 19), 3};
  for (float& v : data.values) v /= 16;
  std::vector<double> expected(300, 1.0 / 300);
  for (std::uint32_t k = 0; k < data.iterations; ++k) {
    std::vector<double> next(300);
    for (std::size_t r = 0; r < 300; ++r) {
      for (std::uint32_t e = data.offsets[r]; e < data.offsets[r + 1]; ++e) {
        next[r] += static_cast<double>(data.values[e]) * expected[data.columns[e]];
      }
    }
    expected = next;
  }
  expect_on_all(data, expected, 1e-8);
  data.values.pop_back();
  EXPECT_EQ(refusal(data), "offsets, columns and values do not describe a square matrix");
}

TEST(unified_programs, kmeans) {
  test::random_numbers random(20);
  kmeans_problem data{500, 6, 4, 7, {}};
  for (std::uint32_t k = 0; k < 3000; ++k) {
    data.values.push_back(static_cast<float>(random.below(17)) / 16);
  }
  // The expected sums are of whole numbers, because centres are multiples of 1/256.
  std::vector<std::int64_t> centres(24);
  for (std::size_t k = 0; k < 24; ++k) {
    centres[k] = static_cast<std::int64_t>(data.values[k] * 256);
  }
  std::vector<std::size_t> members(500, 4);
  std::uint32_t rounds = 0;
  for (bool changed = true; changed && rounds < data.iterations; ++rounds) {
    changed = false;
    std::vector<std::int64_t> sums(24);
    std::vector<std::int64_t> counts(4);
    for (std::size_t p = 0; p < 500; ++p) {
      std::int64_t least = INT64_MAX;
      std::size_t nearest = 0;
      for (std::size_t c = 0; c < 4; ++c) {
        std::int64_t distance = 0;
        for (std::size_t f = 0; f < 6; ++f) {
          const auto d =
              static_cast<std::int64_t>(data.values[p * 6 + f] * 256) - centres[c * 6 + f];
          distance += d * d;
        }
        if (distance >= least) continue;
        least = distance;
        nearest = c;
      }
      changed = changed || members[p] != nearest;
      members[p] = nearest;
      ++counts[nearest];
      for (std::size_t f = 0; f < 6; ++f) {
        sums[nearest * 6 + f] += static_cast<std::int64_t>(data.values[p * 6 + f] * 256);
      }
    }
    for (std::size_t k = 0; k < 24; ++k) {
      const std::int64_t n = counts[k / 6];
      centres[k] = n == 0 ? 0 : (2 * sums[k] + n) / (2 * n);
    }
  }
  ASSERT_GT(rounds, 2U);
  std::vector<double> expected(members.begin(), members.end());
  for (const std::int64_t c : centres) expected.push_back(static_cast<double>(c) / 256);
  expect_on_all(data, expected, 0);
  data.values[7] = 0.3F;
  EXPECT_EQ(refusal(data), "a feature is 0.300000; features are multiples of 1/16 from 0 to 1");
  data.points = 3;
  EXPECT_EQ(refusal(data),
            "k-means needs as many points as centres, with as many values as features; there are 3 "
            "points, 4 centres and 3000 values");
}

TEST(unified_programs, stencil_2d) {
  stencil_2d_problem data{48, 128, 3, {0.25F, 0.15F, 0.05F}, random_floats(50 * 130, 21)};
  std::vector<double> expected(data.grid.begin(), data.grid.end());
  for (std::uint32_t k = 0; k < data.iterations; ++k) {
    const std::vector<double> old = expected;
    for (std::size_t r = 1; r <= 48; ++r) {
      for (std::size_t c = 1; c <= 128; ++c) {
        const std::size_t at = r * 130 + c;
        expected[at] = 0.25 * old[at] +
                       0.15 * (old[at - 130] + old[at + 130] + old[at - 1] + old[at + 1]) +
                       0.05 * (old[at - 131] + old[at - 129] + old[at + 129] + old[at + 131]);
      }
    }
  }
  expect_on_all(data, expected, 1e-6);
  data.columns = 100;
  EXPECT_EQ(refusal(data),
            "a stencil needs a multiple of 16 rows and of 64 columns, with a halo of one point "
            "around them; it was given 48 x 100");
}

TEST(unified_programs, convolution) {
  test::random_numbers random(22);
  convolution_problem data{70, 41, 3, {}, {}};
  for (std::uint32_t k = 0; k < 72 * 43; ++k) data.image.push_back(random.below(256));
  for (std::uint32_t k = 0; k < 9; ++k) {
    data.mask.push_back(static_cast<float>(random.below(16)) / 16);
  }
  std::vector<double> expected;
  for (std::size_t y = 0; y < 41; ++y) {
    for (std::size_t x = 0; x < 70; ++x) {
      double sum = 0.5;
      for (std::size_t m = 0; m < 3; ++m) {
        for (std::size_t n = 0; n < 3; ++n) {
          sum += data.image[(y + m) * 72 + x + n] * static_cast<double>(data.mask[m * 3 + n]);
        }
      }
      expected.push_back(std::floor(sum));
    }
  }
  expect_on_all(data, expected, 0);
  data.mask.pop_back();
  EXPECT_EQ(refusal(data),
            "a convolution needs a square mask, and an image with as many rows and columns as the "
            "70 x 41 result, plus the mask's side minus one");
}

// MGPUSim (24a2205) gives these numbers for the same program, sizes and placement: accesses of the
// vector L1, remote reads and remote writes.
TEST(unified_programs, atax_has_the_accesses_of_mgpusim) {
  const atax_problem data{512, 512, random_floats(512 * 512, 11), random_floats(512, 12)};
  sim::node node(test::r9nano(), 4, [] {});
  const auto c = run::run_unified(node, data, {}).run.loads;
  EXPECT_EQ(c.vector_accesses, 319552U);
  EXPECT_EQ(c.remote_stores, 24576U);
  EXPECT_NEAR(static_cast<double>(c.requests), 211088, 2111);
}

}  // namespace
}  // namespace interlace::workload::unified_tests
