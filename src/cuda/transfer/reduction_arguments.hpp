// The arguments of a kernel of reduction_kernels.cu. Both compilers include this file.
#pragma once

#include <cstdint>

namespace interlace::cuda {

inline constexpr std::uint32_t most_reduced = 16;

// The kernel adds the inputs' elements, or takes the least or the greatest, in the inputs' order.
struct reduction_arguments {
  unsigned long long out = 0;  // addresses; an input may be the output
  unsigned long long in[most_reduced] = {};
  std::uint64_t count = 0;    // elements
  std::uint64_t vectors = 0;  // vectors of 16 bytes, to which all addresses are aligned; the
                              // remaining elements need not be aligned
  std::uint32_t inputs = 0;
};

inline constexpr std::uint32_t reduction_vector_bytes = 16;

}  // namespace interlace::cuda
