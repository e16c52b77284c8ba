// Fourier transforms as library calls. GPUs run cuFFT, and the CPU runs the project's own
// transform. The simulated node charges the bytes and operations that fft_call counts.
#pragma once

#include <cstdint>

#include "interlace/kernel.hpp"
#include "interlace/kernel/library_call.hpp"

namespace interlace::kernel {

// The layout is the same as that of cuFFT's complex numbers.
struct alignas(8) complex_number {
  float re, im;
};

// The kind of transform. No transform divides by the length. Forward transforms use exp(-2 pi i j k
// / length). The spectrum of a real array has only the first length / 2 + 1 numbers of each row.
enum class fft_kind : std::uint8_t {
  columns_forward,   // spectrum has the shape [length][count]; each column is transformed in place
  columns_backward,  //
  planes_forward,    // points [count][length][length] to spectrum [count][length][half]
  planes_backward,   // spectrum to points; overwrites the spectrum
};

// One transform: its kind, its size, and the arrays of the device on which it works.
struct fft {
  fft_kind kind = fft_kind::columns_forward;
  std::uint32_t length = 0;
  std::uint32_t count = 0;
  local<complex_number> spectrum;
  local<float> points;  // only transforms of planes use this array

  // The number of complex numbers in a row of a real array's spectrum: length / 2 + 1.
  std::uint32_t half() const { return length / 2 + 1; }
};

// Makes the library call for a transform, without on_gpu. Throws model_error if an array is shorter
// than the transform, or if the length is 0.
//
// The call moves the bytes of one pass over the data for each dimension. Each pass is in place. A
// line of n complex numbers counts as 5 n log2(n) additions and multiplications, and a line of n
// real numbers counts as half of that. This is the customary count (Frigo and Johnson, benchFFT).
// Kernels for lengths with small factors nearly reach this count.
library_call fft_call(const fft& f);

}  // namespace interlace::kernel
