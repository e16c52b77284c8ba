// Fourier transforms as library calls: cuFFT on GPUs, and one of our own on the CPU, with the bytes
// and operations that simulated time takes for it.
#pragma once

#include <cstdint>

#include "interlace/kernel.hpp"
#include "kernel/library_call.hpp"

namespace interlace::kernel {

// As cuFFT has it.
struct alignas(8) complex_number {
  float re, im;
};

// What is transformed; nothing is divided by the length. Forward is exp(-2 pi i j k / length), and
// a real array's transform has the first length / 2 + 1 of a row.
enum class fft_kind : std::uint8_t {
  columns_forward,   // spectrum: [length][count], each of the columns, in place
  columns_backward,  //
  planes_forward,    // points: [count][length][length], to spectrum: [count][length][half]
  planes_backward,   // the other way round; what was in spectrum is lost
};

struct fft {
  fft_kind kind = fft_kind::columns_forward;
  std::uint32_t length = 0;
  std::uint32_t count = 0;
  local<complex_number> spectrum;
  local<float> points;  // of planes

  std::uint32_t half() const { return length / 2 + 1; }
};

// The call without on_gpu. Throws model_error where an array is shorter than the transform, or the
// length is 0.
//
// Bytes are those of a pass over the data for each dimension, each in place of the one before.
// Operations are 5 n log2(n) additions and multiplications for n complex numbers of a line, and
// half as many for real ones: the customary count (Frigo and Johnson, benchFFT), which the kernels
// of lengths with small factors come near.
library_call fft_call(const fft& f);

}  // namespace interlace::kernel
