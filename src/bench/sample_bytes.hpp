// Bytes of measurements, which show where they were to go: each depends on its place and a seed.
#pragma once

#include <cstdint>

namespace interlace::bench {

// All of these run on the GPU that is named, whose memory, or the host's page-locked memory, they
// are given, and wait for it. They throw device_error.
void load_sample_kernels(int gpu);
void fill_with_samples(int gpu, std::uint8_t* data, std::uint64_t bytes, std::uint64_t seed);
void fill_with_poison(int gpu, std::uint8_t* data, std::uint64_t bytes);
// How many are not the samples; `count` is memory of the GPU.
std::uint64_t count_wrong_samples(int gpu, const std::uint8_t* data, std::uint64_t bytes,
                                  std::uint64_t seed, unsigned long long* count);

}  // namespace interlace::bench
