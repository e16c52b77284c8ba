// The probes as handwritten CUDA kernels, which do not use the model.
#pragma once

#include <cstdint>

namespace interlace::twin {

// --- stencil -------------------------------------------------------------------------------------

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

// --- bitonic sort --------------------------------------------------------------------------------

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

// --- one warp for each row -----------------------------------------------------------------------

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

// --- PageRank ------------------------------------------------------------------------------------

constexpr unsigned int rank_threads = 256;
constexpr unsigned int rank_tile = 2048;

__device__ __forceinline__ float warp_sum(float value) {
  for (int mask = 16; mask != 0; mask /= 2) value += __shfl_xor_sync(0xffffffffU, value, mask);
  return value;
}

// The inputs. Unit b has the rows [unit_rows[b], unit_rows[b + 1]) and the edges [unit_edges[b],
// unit_edges[b + 1]). If unit_slots[b] is not 0, the unit is a part of one row. In this case, the
// word row_sums[unit_slots[b] - 1] adds up the row. Its low bits have the sum, with 47 bits of
// fraction. Its high bits count the parts that were added.
struct rank_input {
  const std::uint32_t* __restrict__ offsets;
  const std::uint32_t* __restrict__ columns;
  const std::uint32_t* __restrict__ unit_rows;
  const std::uint32_t* __restrict__ unit_edges;
  const std::uint32_t* __restrict__ unit_slots;
  const std::uint32_t* __restrict__ out_degree;
  const float* __restrict__ contribution;
  const double* __restrict__ totals;  // totals[0] is the rank of the dangling vertices
  float damping;
  double vertices;
};

// `partials` has `copies` pairs of numbers. The first number of a pair is the rank of the dangling
// vertices. The second number is the sum of |rank' - rank|, if this sum is tracked.
__global__ void __launch_bounds__(rank_threads)
    rank_update(const __grid_constant__ rank_input in, std::uint64_t* row_sums, float* next,
                double* partials, std::uint32_t copies, bool track_residual) {
  __shared__ float gathered[rank_tile];
  __shared__ float warps[2][rank_threads / 32];
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t warp = threadIdx.x / 32;
  const std::uint32_t first_row = __ldg(in.unit_rows + blockIdx.x);
  const std::uint32_t last_row = __ldg(in.unit_rows + blockIdx.x + 1);
  const std::uint32_t first = __ldg(in.unit_edges + blockIdx.x);
  const std::uint32_t last = __ldg(in.unit_edges + blockIdx.x + 1);
  const std::uint32_t slot = __ldg(in.unit_slots + blockIdx.x);
  const double damping = in.damping;
  const auto base = static_cast<float>((1.0 - damping + damping * __ldg(in.totals)) / in.vertices);
  float dangling = 0;
  float residual = 0;
  const auto finish = [&](std::uint32_t row, float sum) {
    const std::uint32_t degree = __ldg(in.out_degree + row);
    const auto divisor = static_cast<float>(degree == 0 ? 1 : degree);
    const float rank = base + in.damping * sum;
    next[row] = rank / divisor;
    if (degree == 0) dangling += rank;
    if (track_residual) residual += fabsf(rank - __ldg(in.contribution + row) * divisor);
  };

  if (slot == 0) {
    for (std::uint32_t e = first + threadIdx.x; e < last; e += rank_threads) {
      gathered[e - first] = __ldg(in.contribution + __ldg(in.columns + e));
    }
    __syncthreads();
    for (std::uint32_t row = first_row + warp * 32; row < last_row; row += rank_threads) {
      const std::uint32_t own = row + lane;
      std::uint32_t begin = 0;
      std::uint32_t end = 0;
      if (own < last_row) {
        begin = __ldg(in.offsets + own) - first;
        end = __ldg(in.offsets + own + 1) - first;
      }
      // All lanes of the warp share a long row.
      const bool is_long = end - begin >= 64;
      float sum = 0;
      if (!is_long) {
        for (std::uint32_t e = begin; e < end; ++e) sum += gathered[e];
      }
      for (unsigned int rest = __ballot_sync(0xffffffffU, is_long); rest != 0; rest &= rest - 1) {
        const int owner = __ffs(static_cast<int>(rest)) - 1;
        const std::uint32_t to = __shfl_sync(0xffffffffU, end, owner);
        float part = 0;
        for (std::uint32_t e = __shfl_sync(0xffffffffU, begin, owner) + lane; e < to; e += 32) {
          part += gathered[e];
        }
        part = warp_sum(part);
        if (lane == static_cast<std::uint32_t>(owner)) sum = part;
      }
      if (own < last_row) finish(own, sum);
    }
  } else {
    float part = 0;
    for (std::uint32_t e = first + threadIdx.x; e < last; e += rank_threads) {
      part += __ldg(in.contribution + __ldg(in.columns + e));
    }
    part = warp_sum(part);
    if (lane == 0) gathered[warp] = part;
    __syncthreads();
    if (threadIdx.x == 0) {
      float sum = 0;
      for (unsigned int w = 0; w < rank_threads / 32; ++w) sum += gathered[w];
      constexpr double fraction = 140737488355328.0;
      const unsigned long long mine =
          (1ULL << 48) + static_cast<unsigned long long>(static_cast<double>(sum) * fraction);
      auto* word = reinterpret_cast<unsigned long long*>(row_sums + slot - 1);
      const unsigned long long all = atomicAdd(word, mine) + mine;
      const std::uint32_t edges = __ldg(in.offsets + first_row + 1) - __ldg(in.offsets + first_row);
      if (all >> 48 == (edges + rank_tile - 1) / rank_tile) {
        *word = 0;
        finish(first_row,
               static_cast<float>(static_cast<double>(all & ((1ULL << 48) - 1)) / fraction));
      }
    }
  }

  dangling = warp_sum(dangling);
  if (track_residual) residual = warp_sum(residual);
  if (lane == 0) {
    warps[0][warp] = dangling;
    warps[1][warp] = residual;
  }
  __syncthreads();
  if (threadIdx.x > (track_residual ? 1U : 0U)) return;
  float total = 0;
  for (float w : warps[threadIdx.x]) total += w;
  if (total != 0) {
    atomicAdd(partials + 2 * (blockIdx.x % copies) + threadIdx.x, static_cast<double>(total));
  }
}

}  // namespace interlace::twin
