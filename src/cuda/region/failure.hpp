// Formats a device's failure report as a sentence.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "interlace/cuda/region/exchange.hpp"

namespace interlace::cuda {

// The names of the devices, and of what they exchange, for the sentence.
struct failure_words {
  std::function<std::string(unsigned int device)> device;
  std::string region;    // region of the failed chunk
  std::string exchange;  // exchange in which the device waited for a peer
  double deadline_s = 0;
  std::uint32_t turns = 1;  // processes that share a GPU; they extend the deadline
};

std::string describe_failure(const wait_failure& f, const failure_words& words);

}  // namespace interlace::cuda
