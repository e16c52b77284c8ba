// Fourier transforms on GPUs by cuFFT. The library cuFFT is loaded at run time: builds need neither
// cuFFT nor its header, and programs without transforms do not need cuFFT.
#pragma once

#include <cstdint>
#include <functional>

#include "interlace/cuda/node.hpp"
#include "interlace/cuda/rank_node.hpp"
#include "interlace/kernel/fft.hpp"

namespace interlace::cuda {

// The function that a library call runs for the transform on a device of the node
// (library_call::on_gpu). Its plan and work area are made here. cuFFT is the library that
// INTERLACE_CUFFT names, or libcufft.so.12 from the usual library folders or from the toolkit of
// this build. Throws usage_error that lists what was tried if there is none, and device_error if
// cuFFT fails.
std::function<void(void* stream)> plan_fft(const node& n, std::uint32_t device,
                                           const kernel::fft& f);
// On a device other than the node's own, the function does nothing.
std::function<void(void* stream)> plan_fft(const rank_node& n, std::uint32_t device,
                                           const kernel::fft& f);

}  // namespace interlace::cuda
