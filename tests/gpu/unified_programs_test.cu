// Programs to which several GPUs look like one, on real GPUs and on the host node.
#include <cmath>
#include <cstdint>
#include <vector>

#include "gpu.hpp"
#include "random_at.hpp"
#include "run/unified.hpp"
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

namespace interlace::unified_programs_tests {
namespace {

using gpu_test::options_for;
using gpu_test::random_at;

class unified_programs : public testing::TestWithParam<std::uint32_t> {
 protected:
  void SetUp() override { INTERLACE_NEED_GPUS(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(all, unified_programs, testing::Values(1U, 2U, 4U),
                         testing::PrintToStringParamName());

std::vector<float> floats(std::uint64_t n, std::uint64_t seed) {
  std::vector<float> values(n);
  for (std::uint64_t k = 0; k < n; ++k) {
    values[k] = static_cast<float>(random_at(seed, k) % 2048) / 1024.0F - 1.0F;
  }
  return values;
}

// In the first run, each array places its own pages. In the second run, all pages are on the last
// GPU.
template <class Data>
void compare(std::uint32_t devices, const Data& data, float tolerance) {
  run::unified_request asked;
  asked.gpus = devices;
  const auto expected = run::unified_on_host(data, asked).values;
  for (const bool last : {false, true}) {
    workload::unified_placement placement;
    if (last) placement.pages = kernel::page_placement::on(devices - 1);
    cuda::node node(options_for(devices));
    const auto found = run::run_unified(node, data, placement).values;
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t k = 0; k < found.size(); ++k) {
      ASSERT_NEAR(found[k], expected[k], tolerance) << "element " << k;
    }
  }
}

TEST_P(unified_programs, fir) {
  compare(GetParam(), workload::fir_problem{floats(100'003, 1), floats(16, 2), floats(16, 3)},
          1e-4F);
}
TEST_P(unified_programs, matrix_transpose) {
  compare(GetParam(), workload::matrix_transpose_problem{512, floats(512 * 512, 4)}, 0);
}
TEST_P(unified_programs, matrix_multiply) {
  compare(
      GetParam(),
      workload::matrix_multiply_problem{128, 256, 192, floats(128 * 256, 5), floats(256 * 192, 6)},
      1e-3F);
}
TEST_P(unified_programs, atax) {
  compare(GetParam(), workload::atax_problem{300, 500, floats(150'000, 7), floats(500, 8)}, 1e-1F);
}
TEST_P(unified_programs, bicg) {
  compare(GetParam(),
          workload::bicg_problem{300, 500, floats(150'000, 9), floats(500, 10), floats(300, 11)},
          1e-2F);
}
TEST_P(unified_programs, sparse_product) {
  workload::sparse_product_problem data;
  data.vector = floats(5000, 12);
  data.offsets.push_back(0);
  for (std::uint32_t r = 0; r < 5000; ++r) {
    for (std::uint32_t k = 0; k < r * 7 % 40; ++k) data.columns.push_back((r * 31 + k * 17) % 5000);
    data.offsets.push_back(static_cast<std::uint32_t>(data.columns.size()));
  }
  data.values = floats(data.columns.size(), 13);
  compare(GetParam(), data, 1e-4F);
}
TEST_P(unified_programs, bitonic_sort) {
  workload::bitonic_sort_problem data;
  for (std::uint64_t k = 0; k < 4096; ++k) {
    data.keys.push_back(static_cast<std::uint32_t>(random_at(14, k) % (1U << 24U)));
  }
  compare(GetParam(), data, 0);
}
TEST_P(unified_programs, aes) {
  workload::aes_problem data;
  for (std::uint64_t k = 0; k < 16 * 1000; ++k) {
    data.text.push_back(static_cast<std::uint8_t>(random_at(15, k)));
  }
  for (std::uint64_t k = 0; k < 32; ++k) {
    data.key.push_back(static_cast<std::uint8_t>(random_at(16, k)));
  }
  compare(GetParam(), data, 0);
}

TEST_P(unified_programs, breadth_first) {
  workload::breadth_first_problem data;
  data.offsets.push_back(0);
  for (std::uint32_t v = 0; v < 5000; ++v) {
    for (std::uint32_t k = 0; k < v * 7 % 6; ++k) {
      data.targets.push_back(static_cast<std::uint32_t>(random_at(18, v * 8 + k) % 5000));
    }
    data.offsets.push_back(static_cast<std::uint32_t>(data.targets.size()));
  }
  data.source = 5;
  compare(GetParam(), data, 0);
}
TEST_P(unified_programs, rank_iteration) {
  workload::rank_iteration_problem data;
  data.offsets.push_back(0);
  for (std::uint32_t r = 0; r < 1000; ++r) {
    for (std::uint32_t k = 0; k < r * 7 % 150; ++k)
      data.columns.push_back((r * 31 + k * 17) % 1000);
    data.offsets.push_back(static_cast<std::uint32_t>(data.columns.size()));
  }
  data.values.assign(data.columns.size(), 1.0F / 64);
  data.iterations = 5;
  compare(GetParam(), data, 1e-6F);
}
TEST_P(unified_programs, kmeans) {
  workload::kmeans_problem data{1000, 8, 5, 6, {}};
  for (std::uint64_t k = 0; k < 8000; ++k) {
    data.values.push_back(static_cast<float>(random_at(19, k) % 17) / 16);
  }
  compare(GetParam(), data, 0);
}
TEST_P(unified_programs, stencil_2d) {
  compare(GetParam(),
          workload::stencil_2d_problem{
              64, 192, 4, {0.25F, 0.15F, 0.05F}, floats(std::uint64_t{66} * 194, 20)},
          1e-5F);
}
TEST_P(unified_programs, convolution) {
  workload::convolution_problem data{190, 77, 3, {}, {}};
  for (std::uint64_t k = 0; k < 192 * 79; ++k) {
    data.image.push_back(static_cast<std::uint32_t>(random_at(21, k) % 256));
  }
  for (std::uint64_t k = 0; k < 9; ++k) {
    data.mask.push_back(static_cast<float>(random_at(22, k) % 16) / 16);
  }
  compare(GetParam(), data, 0);
}

TEST_P(unified_programs, blocks_in_turn_are_refused) {
  cuda::node node(options_for(GetParam()));
  EXPECT_THROW(run::run_unified(node, workload::matrix_transpose_problem{64, floats(64 * 64, 17)},
                                {{}, kernel::block_placement::round_robin}),
               usage_error);
}

}  // namespace
}  // namespace interlace::unified_programs_tests
