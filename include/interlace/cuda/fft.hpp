// Fourier transforms on GPUs by cuFFT, which is loaded at run time: nothing links it or needs its
// header, and whoever transforms nothing does not need it.
#pragma once

#include <cstdint>
#include <functional>

#include "interlace/cuda/node.hpp"
#include "interlace/cuda/rank_node.hpp"
#include "interlace/kernel/fft.hpp"

namespace interlace::cuda {

// What a library call of the transform does on a device of the node (library_call::on_gpu); its
// plan and work area are made here. cuFFT is what INTERLACE_CUFFT names, or libcufft.so.12 where
// libraries are looked for and in the toolkit that this was built with. Throws usage_error, which
// says what was tried, if there is none, and device_error if it fails.
std::function<void(void* stream)> plan_fft(const node& n, std::uint32_t device,
                                           const kernel::fft& f);
// On another device than the node's own it does nothing.
std::function<void(void* stream)> plan_fft(const rank_node& n, std::uint32_t device,
                                           const kernel::fft& f);

}  // namespace interlace::cuda
