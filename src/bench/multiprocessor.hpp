// The microbenchmarks of a multiprocessor run on real and on simulated GPUs. This header has the
// code that both kinds of runs need.
#pragma once

#include <cstdint>
#include <string>

#include "interlace/base/errors.hpp"

namespace interlace::bench {

// The memory from which a kernel loads.
enum class loaded_from : std::uint8_t { shared, l1, l2 };

inline loaded_from loaded_from_of(const std::string& name) {
  if (name == "shared memory") return loaded_from::shared;
  if (name == "L1") return loaded_from::l1;
  if (name == "L2") return loaded_from::l2;
  throw usage_error("there is no memory '" + name + "'; give shared memory, L1 or L2");
}

namespace multiprocessor {

inline constexpr std::uint32_t lanes = 32;
inline constexpr std::uint32_t sub_cores = 4;
inline constexpr std::uint32_t most_threads = 1024;  // most threads of a block

// The number of blocks of a multiprocessor, and the number of threads of each block. They are
// computed from the number of warps in a sub-core.
struct shape {
  std::uint32_t blocks = 1;
  std::uint32_t threads = 0;

  static shape of(std::uint32_t warps) {
    const std::uint32_t threads = warps * sub_cores * lanes;
    const bool one = threads <= most_threads;
    if (warps == 0 || threads > 2 * most_threads || (!one && warps % 2 != 0)) {
      throw usage_error(std::to_string(warps) +
                        " warps of a sub-core are not possible; give 1 to 8, or 16");
    }
    return {one ? 1U : 2U, one ? threads : threads / 2};
  }
};

}  // namespace multiprocessor
}  // namespace interlace::bench
