// What a device reports, as a sentence.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "interlace/cuda/region/exchange.hpp"

namespace interlace::cuda {

// How the devices and what they exchange are called.
struct failure_words {
  std::function<std::string(unsigned int device)> device;
  std::string region;    // of the failure's chunk
  std::string exchange;  // where it waited for a peer
  double deadline_s = 0;
  std::uint32_t turns = 1;  // of processes that share a GPU, for which the deadline is longer
};

std::string describe_failure(const wait_failure& f, const failure_words& words);

}  // namespace interlace::cuda
