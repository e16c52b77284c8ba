#pragma once

#include <cstdint>

#include "interlace/kernel.hpp"

namespace interlace::gpu_test {

// A random number without state. It depends on a seed and a place (SplitMix64), and is the same on
// the host and on a GPU.
INTERLACE_HOST_DEVICE std::uint64_t random_at(std::uint64_t seed, std::uint64_t place) {
  std::uint64_t z = seed * 0x9E3779B97F4A7C15ULL + place * 0xD1B54A32D192ED03ULL;
  z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27U)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31U);
}

}  // namespace interlace::gpu_test
