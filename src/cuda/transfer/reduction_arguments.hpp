// The arguments of a kernel in reduction_kernels.cu. The C++ compiler and nvcc both include this
// file.
#pragma once

#include <cstdint>

namespace interlace::cuda {

inline constexpr std::uint32_t most_reduced = 16;

// The kernel combines the inputs' elements in the inputs' order: it adds them, or takes the minimum
// or the maximum.
struct reduction_arguments {
  unsigned long long out = 0;  // addresses; an input may be the output
  unsigned long long in[most_reduced] = {};
  std::uint64_t count = 0;    // elements
  std::uint64_t vectors = 0;  // number of whole vectors of 16 bytes; 0 unless all addresses
                              // are aligned to vectors. The remaining elements follow them
  std::uint32_t inputs = 0;
};

inline constexpr std::uint32_t reduction_vector_bytes = 16;

}  // namespace interlace::cuda
