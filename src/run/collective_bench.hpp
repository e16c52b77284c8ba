// All-gathers and all-to-alls of all GPUs, timed: as a batch of copies over planned paths, as plain
// copies, and by NCCL.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "run/copy_bench.hpp"

namespace interlace::run {

struct collective_request {
  bool gather = true;       // each GPU's block to all; else a block of its own to each
  std::uint32_t gpus = 0;   // the first ones of this machine
  std::uint64_t bytes = 0;  // of a block
  // "memcpy": each message on a stream of its own, all at once; "nccl"; else as for messages.
  std::vector<std::string> methods{"memcpy", "auto"};
  std::uint32_t warmup = 3;
  std::uint32_t repeats = 20;
};

// All-gathers are in place. Throws usage_error for a request that makes no sense and where NCCL is
// wanted and missing, device_error if a GPU fails.
std::vector<copy_times> measure_collective(const collective_request& request);

}  // namespace interlace::run
