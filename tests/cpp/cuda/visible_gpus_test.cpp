// GPUs that are too old for the kernels.
#include "interlace/cuda/visible_gpus.hpp"

#include <gtest/gtest.h>

namespace interlace {
namespace {

TEST(visible_gpus, say_which_capability_is_missing) {
  EXPECT_EQ(cuda::why_too_old(0, 90, 90), "");
  EXPECT_EQ(cuda::why_too_old(0, 103, 90), "");
  EXPECT_EQ(cuda::why_too_old(1, 86, 90),
            "GPU 1 has compute capability 8.6, and kernels need 9.0 or later");
  EXPECT_EQ(cuda::why_too_old(2, 90, 100),
            "GPU 2 has compute capability 9.0, and kernels need 10.0 or later");
}

TEST(visible_gpus, say_why_an_agent_cannot_copy_in_bulk) {
  EXPECT_EQ(cuda::why_no_bulk_copies(90), "");
  EXPECT_EQ(cuda::why_no_bulk_copies(120), "");
  EXPECT_EQ(cuda::why_no_bulk_copies(80),
            "runs agents that were compiled for compute capability 8.0, and bulk copies need 9.0; "
            "use an agent that copies by vectors");
}

}  // namespace
}  // namespace interlace
