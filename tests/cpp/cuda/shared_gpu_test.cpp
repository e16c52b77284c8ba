// The resources that several devices on one GPU need, and the configurations that are refused.
#include "interlace/cuda/shared_gpu.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "interlace/base/errors.hpp"

namespace interlace::cuda {
namespace {

// The multiprocessors of an H200.
constexpr gpu_places h200{.processors = 132,
                          .threads = 2048,
                          .blocks = 32,
                          .registers = 65536,
                          .shared_bytes = 233472,
                          .reserved_shared_bytes = 1024};
constexpr block_needs agent_block{128, 40, 4};

std::string refusal(const std::vector<int>& ordinals, std::uint32_t streams, const char* queues) {
  if (queues == nullptr) {
    unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
  } else {
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", queues, 1);
  }
  std::string said;
  try {
    require_queues(ordinals, streams);
  } catch (const usage_error& e) {
    said = e.what();
  }
  unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
  return said;
}

TEST(shared_gpu, devices_of_each_gpu) {
  EXPECT_FALSE(shares_gpu({}));
  EXPECT_FALSE(shares_gpu({2, 0, 1}));
  EXPECT_TRUE(shares_gpu({0, 1, 0}));
  EXPECT_EQ(devices_on({0, 1, 0}, 0), 2U);
  EXPECT_EQ(devices_on({0, 1, 0}, 1), 1U);
  EXPECT_EQ(devices_on({0, 1, 0}, 2), 0U);
}

TEST(shared_gpu, queues_of_a_process) {
  EXPECT_EQ(hardware_queues(nullptr), 8U);
  EXPECT_EQ(hardware_queues("1"), 1U);
  EXPECT_EQ(hardware_queues("32"), 32U);
  EXPECT_EQ(hardware_queues("64"), 32U);
  for (const char* wrong : {"", "0", "-3", "many", "8 "}) EXPECT_EQ(hardware_queues(wrong), 8U);
}

TEST(shared_gpu, a_queue_for_each_stream) {
  EXPECT_EQ(refusal({0, 0, 0, 0}, 2, nullptr), "");
  EXPECT_EQ(refusal({0, 1, 2, 3, 4}, 9, "1"), "");  // each device has its own GPU
  EXPECT_EQ(refusal({0, 1, 0, 1}, 2, "4"), "");
  EXPECT_EQ(
      refusal({1, 1, 1, 1, 1}, 2, nullptr),
      "5 devices on GPU 1 need 10 hardware queues, one for each of their streams, and "
      "CUDA_DEVICE_MAX_CONNECTIONS leaves 8; set it to 32 before the process first uses CUDA");
  EXPECT_EQ(refusal(std::vector<int>(16, 0), 2, "32"), "");
  EXPECT_EQ(refusal(std::vector<int>(16, 0), 3, "32"),
            "16 devices on GPU 0 need 48 hardware queues, one for each of their streams, and "
            "CUDA_DEVICE_MAX_CONNECTIONS leaves 32; share the GPU among fewer devices");
}

TEST(shared_gpu, agents_and_a_block_of_the_kernel_run_at_once) {
  // The default agent fits on the GPU together with kernels of usual sizes.
  EXPECT_EQ(why_not_at_once(h200, {128, agent_block}, {256, 64, 4096}, 4), "");
  EXPECT_EQ(why_not_at_once(h200, {128, agent_block}, {1024, 32, 0}, 4), "");
  // No registers are left for the kernel on a multiprocessor that runs a block of an agent. But
  // wherever the GPU places the blocks of the agents, some multiprocessors run no agent.
  EXPECT_EQ(why_not_at_once(h200, {100, agent_block}, {1024, 64, 0}, 1), "");
  EXPECT_EQ(why_not_at_once(h200, {132, agent_block}, {1024, 64, 0}, 1),
            "an agent of 132 blocks, and a kernel block of 1024 threads at the same time: not "
            "enough registers");
  EXPECT_EQ(why_not_at_once(h200, {128, agent_block}, {1024, 64, 0}, 4),
            "4 agents, each of 128 blocks, and a kernel block of 1024 threads at the same time: "
            "not enough registers");
  // These agents make bulk copies.
  const std::string bulk = why_not_at_once(h200, {264, {32, 40, 65568}}, {128, 40, 0}, 2);
  EXPECT_EQ(bulk.substr(bulk.find(':')), ": not enough shared memory") << bulk;
  EXPECT_EQ(why_not_at_once(h200, {64, {32, 40, 65568}}, {128, 40, 0}, 4), "");
  // If each agent has 512 threads, 16 devices can share an H200. A study has at most 16 devices.
  // Four devices can share a GPU with 25 multiprocessors.
  const grid_needs of_512_threads{16, {32, 40, 65568}};
  EXPECT_EQ(why_not_at_once(h200, of_512_threads, {1024, 32, 4096}, 16), "");
  gpu_places least = h200;
  least.processors = 25;
  EXPECT_EQ(why_not_at_once(least, of_512_threads, {256, 64, 4096}, 4), "");
  least.processors = 24;
  EXPECT_NE(why_not_at_once(least, of_512_threads, {256, 64, 4096}, 4), "");
  const std::string many = why_not_at_once(h200, {2048, {32, 8, 0}}, {32, 8, 0}, 4);
  EXPECT_EQ(many.substr(many.find(':')), ": not enough blocks") << many;
  const std::string wide = why_not_at_once(h200, {512, {512, 16, 0}}, {1024, 16, 0}, 4);
  EXPECT_EQ(wide.substr(wide.find(':')), ": not enough threads") << wide;
  // In this configuration, even a single agent does not fit.
  EXPECT_NE(why_not_at_once(h200, {1, agent_block}, {1024, 255, 0}, 2), "");
  // In the worst case, 16 agents and the exchanges of 15 devices each take a whole multiprocessor.
  // The kernel then has no place on a GPU with 31 multiprocessors.
  EXPECT_EQ(why_not_at_once(h200, {1, {1024, 64, 0}}, {1024, 64, 0}, 16), "");
  gpu_places small = h200;
  small.processors = 31;
  EXPECT_NE(why_not_at_once(small, {1, {1024, 64, 0}}, {1024, 64, 0}, 16), "");
}

}  // namespace
}  // namespace interlace::cuda
