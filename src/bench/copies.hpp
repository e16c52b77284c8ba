// Copies over several paths beside plain ones, timed on real GPUs.
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
  // From and to: CUDA's numbers of GPUs, -1 the host's page-locked memory. All are enqueued, each
  // on a stream of its own, before any is waited for.
  std::vector<std::pair<int, int>> messages;
  std::uint64_t bytes = 0;  // of each
  // Also "streams", "graphs", settings with spaces between ("INTERLACE_COPY=graphs ..."), and
  // "nccl" where no message has the host: all of them are one group, on a stream of each GPU.
  std::vector<std::string> methods{"memcpy", "auto"};
  std::uint32_t warmup = 3;
  std::uint32_t repeats = 20;
};

// Of one method, by repeat; methods take turns.
struct copy_times {
  std::string method;
  std::vector<double> time_s;  // from the first call until all have arrived
  std::vector<double> call_s;  // of the host, for all calls
  std::uint64_t wrong = 0;     // bytes, of the first and the last repeat
};

inline double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Of a method that is the copy engine. Made once in the process: contexts and staging memory take
// time.
copier& copier_of(const std::string& method);
// NCCL's of these GPUs, made once in the process too. Throws usage_error where NCCL is missing.
const cuda::nccl_communicators& communicators_of(const std::vector<int>& gpus);

// Throws usage_error for a request that makes no sense and where NCCL is wanted and missing,
// device_error if a GPU fails.
std::vector<copy_times> measure_copies(const copy_request& request);

}  // namespace interlace::bench
