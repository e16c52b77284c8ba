// Times copies over several paths, and plain copies, on real GPUs.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "interlace/copy.hpp"

namespace interlace::cuda {
class nccl_communicators;
}

namespace interlace::bench {

struct copy_request {
  // The sender and the receiver of each message. A value is CUDA's number of a GPU, or -1 for the
  // host's page-locked memory. All messages are enqueued, each on its own stream, before the host
  // waits for any message.
  std::vector<std::pair<int, int>> messages;
  std::uint64_t bytes = 0;  // bytes of each message
  // The methods to time. Besides "memcpy" and "nccl", a method is "streams", "graphs", or a list of
  // settings separated by spaces ("INTERLACE_COPY=graphs ..."). "nccl" is possible only if no
  // message begins or ends at the host. With "nccl", all messages are one group of NCCL calls, with
  // one stream on each GPU.
  std::vector<std::string> methods{"memcpy", "auto"};
  std::uint32_t warmup = 3;
  std::uint32_t repeats = 20;
};

// The times of one method, with one value for each repeat. The methods take turns.
struct copy_times {
  std::string method;
  std::vector<double> time_s;  // time from the first call until all messages have arrived
  std::vector<double> call_s;  // time that the host needs for all calls
  std::uint64_t wrong = 0;     // number of wrong bytes in the first and the last repeat
};

inline double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// The copier for a method that uses the copy engine. A process makes each copier only once, because
// contexts and staging memory take time.
copier& copier_of(const std::string& method);
// NCCL's communicators for these GPUs. A process makes communicators only once. Throws usage_error
// if NCCL is missing.
const cuda::nccl_communicators& communicators_of(const std::vector<int>& gpus);

// Measures copies. Throws usage_error if the request is not valid, or if NCCL is needed but
// missing. Throws device_error if a GPU fails.
std::vector<copy_times> measure_copies(const copy_request& request);

}  // namespace interlace::bench
