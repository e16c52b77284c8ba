// Turns a device's failure report into a sentence.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "interlace/cuda/region/exchange.hpp"

namespace interlace::cuda {

// The names of the devices, the region and the exchange, for the sentence.
struct failure_words {
  std::function<std::string(unsigned int device)> device;
  std::string region;    // region of the failed chunk
  std::string exchange;  // exchange in which the device waited for a peer
  double deadline_s = 0;
  // The number of processes that share a GPU, by which the deadline is multiplied.
  std::uint32_t turns = 1;
};

std::string describe_failure(const wait_failure& f, const failure_words& words);

// Describes a wait for a chunk. The wait has not failed yet.
std::string describe_wait(const wait_failure& f, const failure_words& words);

}  // namespace interlace::cuda
