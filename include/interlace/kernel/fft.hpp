// Fourier transforms as library calls: cuFFT on GPUs and our own transform on the CPU, with the
// bytes and operations that they take in simulated time.
#pragma once

#include <cstdint>

#include "interlace/kernel.hpp"
#include "interlace/kernel/library_call.hpp"

namespace interlace::kernel {

// Same layout as cuFFT's.
struct alignas(8) complex_number {
  float re, im;
};

// The kind of transform. Nothing is divided by the length. Forward is exp(-2 pi i j k / length).
// The transform of a real array has the first length / 2 + 1 numbers of a row.
enum class fft_kind : std::uint8_t {
  columns_forward,   // spectrum: [length][count], every column in place
  columns_backward,  //
  planes_forward,    // points [count][length][length] to spectrum [count][length][half]
  planes_backward,   // the reverse; overwrites the spectrum
};

// One transform: its kind, its size, and the arrays of one device that it works on.
struct fft {
  fft_kind kind = fft_kind::columns_forward;
  std::uint32_t length = 0;
  std::uint32_t count = 0;
  local<complex_number> spectrum;
  local<float> points;  // only for planes

  // Complex numbers in a row of a real array's spectrum: length / 2 + 1.
  std::uint32_t half() const { return length / 2 + 1; }
};

// The call without on_gpu. Throws model_error if an array is shorter than the transform, or the
// length is 0.
//
// Bytes count a pass over the data for each dimension; each pass is in place. Operations count 5 n
// log2(n) additions and multiplications for a line of n complex numbers, and half of that for real
// numbers. This is the customary count (Frigo and Johnson, benchFFT), which kernels for lengths
// with small factors nearly reach.
library_call fft_call(const fft& f);

}  // namespace interlace::kernel
