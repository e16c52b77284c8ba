// Test data for measurements. Each byte depends on its position and on a seed, so that a comparison
// finds misplaced bytes.
#pragma once

#include <cstdint>

namespace interlace::bench {

// All functions in this file run on the given GPU and block until they are done. The data must be
// in that GPU's memory or in page-locked host memory. The functions throw device_error if the GPU
// fails.
void load_sample_kernels(int gpu);
void fill_with_samples(int gpu, std::uint8_t* data, std::uint64_t bytes, std::uint64_t seed);
void fill_with_poison(int gpu, std::uint8_t* data, std::uint64_t bytes);
// Counts the bytes that differ from the samples. `count` is scratch memory on the GPU.
std::uint64_t count_wrong_samples(int gpu, const std::uint8_t* data, std::uint64_t bytes,
                                  std::uint64_t seed, unsigned long long* count);

}  // namespace interlace::bench
