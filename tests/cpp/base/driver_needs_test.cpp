// Tests of the messages about a driver or a GPU that is missing or too old.
#include "base/driver_needs.hpp"

#include <gtest/gtest.h>

namespace interlace {
namespace {

TEST(driver_needs, say_which_driver_is_needed_and_what_works) {
  EXPECT_EQ(cuda_text(12020), "12.2");
  EXPECT_EQ(cuda_text(13000), "13.0");
  EXPECT_EQ(cuda_version("12.2"), 12020);
  for (const char* wrong : {"", "12", "12.", "x.2"}) EXPECT_EQ(cuda_version(wrong), 0) << wrong;
  EXPECT_EQ(no_driver(),
            "no NVIDIA driver was found (no libcuda.so.1); GPUs need one for CUDA 12.2 (535) or "
            "later, and simulated machines need none");
  EXPECT_NE(no_driver(true).find("NVIDIA_DRIVER_CAPABILITIES=compute,utility"), std::string::npos);
  EXPECT_EQ(why_driver_too_old_for_copies(12020), "");
  EXPECT_EQ(why_driver_too_old_for_copies(13010), "");
  EXPECT_EQ(why_driver_too_old_for_copies(11080),
            "the NVIDIA driver is for CUDA 11.8, and copies need a driver for CUDA 12.2 (535) or "
            "later; simulated machines need none");
}

TEST(driver_needs, a_runtime_needs_a_driver_of_its_major_version) {
  EXPECT_EQ(why_driver_too_old_for_kernels(13000, 13020), "");
  EXPECT_EQ(why_driver_too_old_for_kernels(14000, 13020), "");
  EXPECT_EQ(why_driver_too_old_for_kernels(12080, 13020),
            "the NVIDIA driver is for CUDA 12.8, and kernels need a driver for CUDA 13.0 (580) or "
            "later; copies, load, save, interlace run and simulated machines still work");
  EXPECT_EQ(why_driver_too_old_for_kernels(12000, 14000),
            "the NVIDIA driver is for CUDA 12.0, and kernels need a driver for CUDA 14.0 or later; "
            "simulated machines need none");
  EXPECT_EQ(why_driver_too_old_for_reductions(13000, 13010), "");
  EXPECT_EQ(why_driver_too_old_for_reductions(12020, 13010),
            "the NVIDIA driver is for CUDA 12.2, and all-reduces need a driver for CUDA 13.0 (580) "
            "or later; copies and other collectives still work");
}

TEST(driver_needs, say_which_capability_is_missing) {
  EXPECT_EQ(why_gpu_too_old(0, 90, 90), "");
  EXPECT_EQ(why_gpu_too_old(0, 103, 90), "");
  EXPECT_EQ(why_gpu_too_old(1, 86, 90),
            "GPU 1 has compute capability 8.6, and kernels need 9.0 or later; copies, load, save, "
            "interlace run and simulated machines still work");
  EXPECT_EQ(why_gpu_too_old(2, 90, 100).substr(0, 76),
            "GPU 2 has compute capability 9.0, and kernels need 10.0 or later; copies, lo");
}

TEST(driver_needs, say_why_an_agent_cannot_copy_in_bulk) {
  EXPECT_EQ(why_no_bulk_copies(90), "");
  EXPECT_EQ(why_no_bulk_copies(120), "");
  EXPECT_EQ(why_no_bulk_copies(80),
            "runs agents that were compiled for compute capability 8.0, and bulk copies need 9.0; "
            "use an agent that copies by vectors");
}

TEST(driver_needs, a_driver_that_does_not_start_says_why) {
  EXPECT_EQ(no_start(100, "CUDA_ERROR_NO_DEVICE"),
            "an NVIDIA driver is there, but it finds no GPU (cuInit failed: CUDA_ERROR_NO_DEVICE)");
  EXPECT_NE(no_start(802, "X").find("nvidia-fabricmanager"), std::string::npos);
  EXPECT_NE(no_start(803, "X").find("different versions"), std::string::npos);
  EXPECT_EQ(no_start(999, "CUDA_ERROR_UNKNOWN"),
            "the NVIDIA driver does not start (cuInit failed: CUDA_ERROR_UNKNOWN)");
}

}  // namespace
}  // namespace interlace
