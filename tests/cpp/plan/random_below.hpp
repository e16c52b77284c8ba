// A random number below a bound.
#pragma once

#include <cstdint>
#include <random>

namespace interlace::plan {

inline std::uint64_t below(std::mt19937_64& random, std::uint64_t bound) {
  return random() % bound;
}

}  // namespace interlace::plan
