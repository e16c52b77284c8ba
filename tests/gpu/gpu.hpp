// Functions that the GPU tests share.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "cuda/region/agent.hpp"
#include "cuda/transfer/nccl_library.hpp"
#include "interlace/base/errors.hpp"
#include "interlace/cuda/node.hpp"
#include "interlace/cuda/visible_gpus.hpp"
#include "random_at.hpp"

namespace interlace::gpu_test {

inline std::uint32_t gpus_here() {
  try {
    return cuda::device_count();
  } catch (const std::exception&) {
    return 0;
  }
}

// If INTERLACE_TEST_SHARED_GPU is 1, several devices share each GPU
// (interlace/cuda/shared_gpu.hpp). Fewer GPUs then suffice to test everything except speed.
inline bool shares_gpus() {
  const char* value = std::getenv("INTERLACE_TEST_SHARED_GPU");  // NOLINT: no thread sets variables
  return value != nullptr && std::string(value) == "1";
}

// Gives each stream of the devices a hardware queue. The variable must be set before the process
// first uses CUDA.
inline const bool queues_set = shares_gpus() && setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0) == 0;

// Says why a test with n devices cannot run here. The text is empty if the test can run.
inline std::string why_not(std::uint32_t n) {
  const std::uint32_t here = gpus_here();
  if (here >= n || (here > 0 && shares_gpus())) return {};
  return "needs " + std::to_string(n) + " GPUs and " + std::to_string(here) + " are here";
}

// Says why a test that needs a GPU for each of its n devices cannot run. Such tests are those of
// links, of link counters, and of libraries that refuse to share a GPU.
inline std::string why_not_distinct(std::uint32_t n) {
  const std::uint32_t here = gpus_here();
  if (here >= n) return {};
  return "needs " + std::to_string(n) + " different GPUs and " + std::to_string(here) + " are here";
}

// Says why n devices cannot use NCCL here. The text is empty if they can use it.
inline std::string without_nccl(std::uint32_t n) {
  if (gpus_here() < n) return "needs " + std::to_string(n) + " GPUs, one for each device";
  try {
    cuda::nccl_library::of_process();
  } catch (const usage_error& e) {
    return e.what();
  }
  return {};
}

// Says why agents cannot copy in this way. The text is empty if they can. In a build without code
// for compute capability 9.0, agents cannot make bulk copies.
inline std::string why_not_copied(kernel::agent_copy copy) {
  if (copy == kernel::agent_copy::vectors || gpus_here() == 0) return {};
  const std::string reason = cuda::why_no_bulk_agent();
  return reason.empty() ? reason : "the GPU " + reason;
}

// Returns the number of threads of an agent. It is `asked`, or less if the agents of several
// devices must run on one GPU at the same time. An agent that makes bulk copies takes a third of a
// multiprocessor's shared memory for every 32 threads. 4 agents of 512 threads therefore need a GPU
// with 25 multiprocessors.
inline std::uint32_t agent_threads(std::uint32_t asked) {
  return shares_gpus() ? std::min(asked, 512U) : asked;
}

inline cuda::node_options options_for(std::uint32_t devices) {
  cuda::node_options o;
  o.devices = devices;
  const std::uint32_t here = gpus_here();
  for (std::uint32_t d = 0; d < devices; ++d) o.ordinals.push_back(static_cast<int>(d % here));
  return o;
}

}  // namespace interlace::gpu_test

#define INTERLACE_SKIP_WITH_REASON(reason)                                 \
  do {                                                                     \
    if (const auto interlace_reason = reason; !interlace_reason.empty()) { \
      GTEST_SKIP() << interlace_reason;                                    \
    }                                                                      \
  } while (false)

#define INTERLACE_NEED_COPIES(copy) \
  INTERLACE_SKIP_WITH_REASON(::interlace::gpu_test::why_not_copied(copy))
#define INTERLACE_NEED_GPUS(n) INTERLACE_SKIP_WITH_REASON(::interlace::gpu_test::why_not(n))
#define INTERLACE_NEED_DISTINCT_GPUS(n) \
  INTERLACE_SKIP_WITH_REASON(::interlace::gpu_test::why_not_distinct(n))
