// Times collectives of all GPUs: as batches of copies over planned paths, as plain copies, and by
// NCCL.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/copies.hpp"

namespace interlace::bench {

enum class collective_pattern : std::uint8_t {
  all_gather,  // each GPU sends its block to all GPUs
  all_to_all,  // each GPU sends a different block to each GPU
  all_reduce,  // each GPU has a block for each GPU; all_reduces.hpp
};

struct collective_request {
  collective_pattern pattern = collective_pattern::all_gather;
  std::uint32_t gpus = 0;   // the first GPUs of this machine
  std::uint64_t bytes = 0;  // of a block
  // "memcpy": each message has a stream of its own, and all run at once; not for all-reduces.
  // "nccl". Other methods as for messages.
  std::vector<std::string> methods{"memcpy", "auto"};
  std::uint32_t warmup = 3;
  std::uint32_t repeats = 20;
};

// All-gathers are in place. Throws usage_error for a request that is not valid and if NCCL is
// needed but missing, device_error if a GPU fails.
std::vector<copy_times> measure_collective(const collective_request& request);

}  // namespace interlace::bench
