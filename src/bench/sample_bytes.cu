#include "bench/sample_bytes.hpp"
#include "cuda/library.hpp"
#include "cuda/load_kernel.hpp"
#include "interlace/cuda/check.hpp"

namespace interlace::bench {

namespace {

constexpr std::uint8_t poison = 0x5A;
constexpr int fill_blocks = 264;
constexpr int fill_threads = 512;

__device__ std::uint8_t sample(std::uint64_t seed, std::uint64_t place) {
  std::uint64_t z = (seed + place) * 0x9E3779B97F4A7C15ULL;
  z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  return static_cast<std::uint8_t>(z >> 56U);
}

__global__ void __launch_bounds__(fill_threads)
    fill_samples(std::uint8_t* data, std::uint64_t bytes, std::uint64_t seed) {
  const std::uint64_t stride = std::uint64_t{gridDim.x} * blockDim.x;
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < bytes;
       i += stride) {
    data[i] = sample(seed, i);
  }
}

__global__ void __launch_bounds__(fill_threads) paint(std::uint8_t* data, std::uint64_t bytes) {
  const std::uint64_t stride = std::uint64_t{gridDim.x} * blockDim.x;
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < bytes;
       i += stride) {
    data[i] = poison;
  }
}

__global__ void __launch_bounds__(fill_threads)
    count_differences(const std::uint8_t* data, std::uint64_t bytes, std::uint64_t seed,
                      unsigned long long* wrong) {
  unsigned long long own = 0;
  const std::uint64_t stride = std::uint64_t{gridDim.x} * blockDim.x;
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < bytes;
       i += stride) {
    own += data[i] != sample(seed, i) ? 1 : 0;
  }
  if (own != 0) atomicAdd(wrong, own);
}

}  // namespace

void load_sample_kernels(int gpu) {
  const cuda::current_device on(gpu);
  cuda::load_kernel(fill_samples);
  cuda::load_kernel(paint);
  cuda::load_kernel(count_differences);
}

void fill_with_samples(int gpu, std::uint8_t* data, std::uint64_t bytes, std::uint64_t seed) {
  const cuda::current_device on(gpu);
  fill_samples<<<fill_blocks, fill_threads>>>(data, bytes, seed);
  INTERLACE_CUDA_CHECK(cudaGetLastError());
  INTERLACE_CUDA_CHECK(cudaDeviceSynchronize());
}

void fill_with_poison(int gpu, std::uint8_t* data, std::uint64_t bytes) {
  const cuda::current_device on(gpu);
  paint<<<fill_blocks, fill_threads>>>(data, bytes);
  INTERLACE_CUDA_CHECK(cudaGetLastError());
  INTERLACE_CUDA_CHECK(cudaDeviceSynchronize());
}

std::uint64_t count_wrong_samples(int gpu, const std::uint8_t* data, std::uint64_t bytes,
                                  std::uint64_t seed, unsigned long long* count) {
  const cuda::current_device on(gpu);
  INTERLACE_CUDA_CHECK(cudaMemset(count, 0, sizeof(*count)));
  count_differences<<<fill_blocks, fill_threads>>>(data, bytes, seed, count);
  INTERLACE_CUDA_CHECK(cudaGetLastError());
  unsigned long long wrong = 0;
  INTERLACE_CUDA_CHECK(cudaMemcpy(&wrong, count, sizeof(wrong), cudaMemcpyDefault));
  return wrong;
}

}  // namespace interlace::bench
