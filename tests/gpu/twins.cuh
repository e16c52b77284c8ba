// The probes as one would write them by hand: plain CUDA, without the model.
#pragma once

#include <cstdint>

namespace interlace::twin {

// --- stencil
// --------------------------------------------------------------------------------------

constexpr unsigned int stencil_x = 64;
constexpr unsigned int stencil_y = 4;

__global__ void __launch_bounds__(stencil_x* stencil_y)
    stencil_step(const float* __restrict__ u, float* __restrict__ next, std::uint32_t columns,
                 std::uint32_t rows) {
  const std::uint32_t tiles = (columns + stencil_x - 1) / stencil_x;
  const std::uint32_t x = blockIdx.x % tiles * stencil_x + threadIdx.x % stencil_x;
  const std::uint32_t y = blockIdx.x / tiles * stencil_y + threadIdx.x / stencil_x;
  if (x >= columns || y >= rows) return;
  const std::uint64_t i = std::uint64_t{y} * columns + x;
  const float centre = __ldg(u + i);
  if (x == 0 || y == 0 || x == columns - 1 || y == rows - 1) {
    next[i] = centre;
    return;
  }
  const float sides = __ldg(u + i - 1) + __ldg(u + i + 1);
  const float ends = __ldg(u + i - columns) + __ldg(u + i + columns);
  next[i] = 0.5F * centre + 0.125F * (sides + ends);
}

// --- bitonic sort
// ---------------------------------------------------------------------------------

constexpr unsigned int sort_tile = 512;

__device__ __forceinline__ std::uint32_t keep_one(std::uint32_t own, std::uint32_t other,
                                                  bool smaller) {
  return (own < other) == smaller ? own : other;
}

__global__ void __launch_bounds__(sort_tile)
    sort_tiles(std::uint32_t* keys, std::uint64_t first_size, std::uint64_t last_size) {
  __shared__ std::uint32_t staged[sort_tile];
  const std::uint64_t i = std::uint64_t{blockIdx.x} * sort_tile + threadIdx.x;
  std::uint32_t key = keys[i];
  for (std::uint64_t size = first_size; size <= last_size; size *= 2) {
    const bool up = (i & size) == 0;
    auto distance = static_cast<std::uint32_t>(size / 2 < sort_tile / 2 ? size / 2 : sort_tile / 2);
    for (; distance >= 32; distance /= 2) {
      __syncthreads();
      staged[threadIdx.x] = key;
      __syncthreads();
      const bool low = (threadIdx.x & distance) == 0;
      key = keep_one(key, staged[threadIdx.x ^ distance], low == up);
    }
    for (; distance > 0; distance /= 2) {
      const std::uint32_t other = __shfl_xor_sync(0xffffffffU, key, static_cast<int>(distance));
      const bool low = (threadIdx.x & distance) == 0;
      key = keep_one(key, other, low == up);
    }
  }
  keys[i] = key;
}

__global__ void __launch_bounds__(256)
    sort_far(std::uint32_t* keys, std::uint64_t size, std::uint64_t distance) {
  const std::uint64_t pair = std::uint64_t{blockIdx.x} * 256 + threadIdx.x;
  const std::uint64_t inside = pair & (distance - 1);
  const std::uint64_t low = ((pair - inside) << 1) | inside;
  const std::uint32_t a = keys[low];
  const std::uint32_t b = keys[low + distance];
  if ((a > b) == ((low & size) == 0)) {
    keys[low] = b;
    keys[low + distance] = a;
  }
}

inline void sort(std::uint32_t* keys, std::uint64_t n, cudaStream_t stream) {
  const auto tiles = static_cast<unsigned int>(n / sort_tile);
  sort_tiles<<<tiles, sort_tile, 0, stream>>>(keys, 2, sort_tile);
  for (std::uint64_t size = 2 * sort_tile; size <= n; size *= 2) {
    for (std::uint64_t distance = size / 2; distance >= sort_tile; distance /= 2) {
      sort_far<<<static_cast<unsigned int>(n / 512), 256, 0, stream>>>(keys, size, distance);
    }
    sort_tiles<<<tiles, sort_tile, 0, stream>>>(keys, size, size);
  }
}

// --- a warp a row
// ---------------------------------------------------------------------------------

__global__ void __launch_bounds__(256)
    spmv(const std::uint32_t* __restrict__ offsets, const std::uint32_t* __restrict__ columns,
         const float* __restrict__ values, const float* __restrict__ x, float* __restrict__ y,
         double* product, std::uint64_t rows, std::uint32_t copies) {
  __shared__ double products[8];
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint64_t row = std::uint64_t{blockIdx.x} * 8 + threadIdx.x / 32;
  float sum = 0;
  if (row < rows) {
    const std::uint32_t end = __ldg(offsets + row + 1);
    for (std::uint32_t e = __ldg(offsets + row) + lane; e < end; e += 32) {
      sum += __ldg(values + e) * __ldg(x + __ldg(columns + e));
    }
  }
  for (int mask = 16; mask != 0; mask /= 2) sum += __shfl_xor_sync(0xffffffffU, sum, mask);
  if (lane == 0) {
    double xy = 0;
    if (row < rows) {
      y[row] = sum;
      xy = static_cast<double>(sum) * static_cast<double>(__ldg(x + row));
    }
    products[threadIdx.x / 32] = xy;
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  double block = 0;
  for (double p : products) block += p;
  atomicAdd(product + blockIdx.x % copies, block);
}

}  // namespace interlace::twin
