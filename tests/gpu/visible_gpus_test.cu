// Tests of GPU numbers, including numbers of GPUs that do not exist.
#include <gtest/gtest.h>

#include <string>

#include "gpu.hpp"
#include "interlace/base/errors.hpp"
#include "interlace/cuda/visible_gpus.hpp"

namespace interlace::visible_gpus_tests {
namespace {

TEST(visible_gpus_test, those_that_there_are_run_kernels) {
  if (const std::string reason = gpu_test::why_not(1); !reason.empty()) GTEST_SKIP() << reason;
  const auto present = static_cast<int>(cuda::device_count());
  EXPECT_NO_THROW(cuda::require_gpu(0));
  for (const int gpu : {-1, present}) {
    try {
      cuda::require_gpu(gpu);
      FAIL() << gpu;
    } catch (const usage_error& e) {
      EXPECT_EQ(e.what(), "there is no GPU " + std::to_string(gpu) + "; there are " +
                              std::to_string(present));
    }
  }
}

}  // namespace
}  // namespace interlace::visible_gpus_tests
