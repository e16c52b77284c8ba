// Fourier transforms on GPUs by cuFFT. The program loads cuFFT when it first plans a transform. A
// build therefore needs neither cuFFT nor its header, and a program without transforms does not
// need cuFFT.
#pragma once

#include <cstdint>
#include <functional>

#include "interlace/cuda/node.hpp"
#include "interlace/cuda/rank_node.hpp"
#include "interlace/kernel/fft.hpp"

namespace interlace::cuda {

// Plans a transform on a device of the node, and returns the function that a library call runs for
// the transform (library_call::on_gpu). plan_fft makes cuFFT's plan and its work area at once. It
// loads the cuFFT library that INTERLACE_CUFFT names. Without this variable, it loads
// libcufft.so.12 from the usual library folders or from the toolkit of this build. Throws
// usage_error if there is no such library; the error lists the files that were tried. Throws
// device_error if cuFFT fails.
std::function<void(void* stream)> plan_fft(const node& n, std::uint32_t device,
                                           const kernel::fft& f);
// Does the same for a node of several processes. If `device` is not the node's own device, the
// returned function does nothing.
std::function<void(void* stream)> plan_fft(const rank_node& n, std::uint32_t device,
                                           const kernel::fft& f);

}  // namespace interlace::cuda
