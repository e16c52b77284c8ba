// Times collectives of all GPUs. The collectives are made as batches of copies over planned paths,
// as plain copies, and by NCCL.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/copies.hpp"

namespace interlace::bench {

enum class collective_pattern : std::uint8_t {
  all_gather,  // each GPU sends its block to all GPUs
  all_to_all,  // each GPU sends a different block to each GPU
  all_reduce,  // each GPU has one block for each GPU (all_reduces.hpp)
};

struct collective_request {
  collective_pattern pattern = collective_pattern::all_gather;
  std::uint32_t gpus = 0;   // number of GPUs; the first GPUs of this machine take part
  std::uint64_t bytes = 0;  // size of a block
  // The methods to time. "memcpy" copies each message on its own stream, with all copies at the
  // same time. "memcpy" cannot make all-reduces. "nccl" uses NCCL. copies.hpp describes the other
  // methods.
  std::vector<std::string> methods{"memcpy", "auto"};
  std::uint32_t warmup = 3;
  std::uint32_t repeats = 20;
};

// Measures a collective. All-gathers are in place. Throws usage_error if the request is not valid,
// or if NCCL is needed but missing. Throws device_error if a GPU fails.
std::vector<copy_times> measure_collective(const collective_request& request);

}  // namespace interlace::bench
