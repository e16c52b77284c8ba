// Fourier transforms on GPUs by cuFFT. The program loads cuFFT when it first plans a transform. So
// a build needs neither cuFFT nor its header, and a program without transforms does not need cuFFT.
#pragma once

#include <cstdint>
#include <functional>

#include "interlace/cuda/node.hpp"
#include "interlace/cuda/rank_node.hpp"
#include "interlace/kernel/fft.hpp"

namespace interlace::cuda {

// Returns the function that a library call runs for the transform on a device of the node
// (library_call::on_gpu). plan_fft itself makes the plan and its work area. It loads the cuFFT that
// INTERLACE_CUFFT names, or libcufft.so.12 from the usual library folders or from the toolkit of
// this build. Throws usage_error, which lists the files that were tried, if there is no such
// library, and device_error if cuFFT fails.
std::function<void(void* stream)> plan_fft(const node& n, std::uint32_t device,
                                           const kernel::fft& f);
// If `device` is not the node's own device, the returned function does nothing.
std::function<void(void* stream)> plan_fft(const rank_node& n, std::uint32_t device,
                                           const kernel::fft& f);

}  // namespace interlace::cuda
