// The arguments of a kernel in reduction_kernels.cu. Both the C++ compiler and nvcc compile this
// file.
#pragma once

#include <cstdint>

namespace interlace::cuda {

inline constexpr std::uint32_t most_reduced = 16;

// The arguments of a reduction. The kernel combines the elements of the inputs in the order of the
// inputs. It adds them, or takes the minimum or the maximum.
struct reduction_arguments {
  unsigned long long out = 0;  // the following members are addresses; an input may be the output
  unsigned long long in[most_reduced] = {};
  std::uint64_t count = 0;  // number of elements
  // number of whole vectors of 16 bytes, or 0 unless all addresses are aligned to vectors; the
  // remaining elements follow the vectors
  std::uint64_t vectors = 0;
  std::uint32_t inputs = 0;
};

inline constexpr std::uint32_t reduction_vector_bytes = 16;

}  // namespace interlace::cuda
