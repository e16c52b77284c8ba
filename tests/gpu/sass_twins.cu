// Kernels that use the model, and handwritten kernels ("twins") that do the same.
// tests/python/test_sass.py compiles only this file, and compares the machine instructions of each
// `model_x` with those of `twin_x`.
//
// The twins use the same features of CUDA as the model: 64-bit indices, the read-only path for
// constant arrays, a known block size, and dynamic shared memory.
#include <cstdint>

#include "interlace/kernel_device.cuh"

namespace {

using interlace::local;
using interlace::replicated;

// --- a map ---------------------------------------------------------------------------------------

struct axpy {
  static constexpr std::uint32_t threads = 256;
  float a;
  local<const float> x;
  local<float> y;
  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      const auto i = lane.global_index();
      if (i < x.size) lane.store(y, i, a * lane.load(x, i) + lane.load(y, i));
    });
  }
};

struct axpy_arguments {
  float a;
  const float* x;
  std::uint64_t x_size;
  float* y;
  std::uint64_t y_size;
};

__device__ __forceinline__ void axpy_by_hand(const axpy_arguments& k) {
  const std::uint64_t i = std::uint64_t{blockIdx.x} * 256 + threadIdx.x;
  if (i < k.x_size) k.y[i] = k.a * __ldg(k.x + i) + k.y[i];
}

// --- a row's sum ---------------------------------------------------------------------------------

struct row_sum {
  static constexpr std::uint32_t threads = 128;
  local<const std::uint64_t> offsets;
  local<const std::uint32_t> column;
  replicated<float> rank;
  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      const auto v = lane.global_index();
      if (v >= rank.size) return;
      float sum = 0;
      for (auto e : lane.range(lane.load_index(offsets, v), lane.load_index(offsets, v + 1))) {
        sum += lane.load(rank, lane.load_index(column, e));
      }
      lane.store(rank, v, 0.15f + 0.85f * sum);
    });
  }
};

__device__ __forceinline__ void row_sum_by_hand(const row_sum& k) {
  const std::uint64_t v = std::uint64_t{blockIdx.x} * 128 + threadIdx.x;
  if (v >= k.rank.size) return;
  float sum = 0;
  const std::uint64_t end = __ldg(k.offsets.data + v + 1);
  for (std::uint64_t e = __ldg(k.offsets.data + v); e < end; ++e) {
    sum += __ldg(k.rank.front + __ldg(k.column.data + e));
  }
  k.rank.back[v] = 0.15f + 0.85f * sum;
}

// --- a tile in shared memory ---------------------------------------------------------------------

struct transpose {
  static constexpr std::uint32_t threads = 256;
  static constexpr std::uint32_t side = 32;
  local<const float> in;
  local<float> out;
  std::uint32_t columns;
  std::uint32_t rows;
  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    auto tile = interlace::shared<float>(block, side * (side + 1));
    const std::uint32_t tiles = columns / side;
    const auto tile_x = static_cast<std::uint32_t>(block.index()) % tiles;
    const auto tile_y = static_cast<std::uint32_t>(block.index()) / tiles;
    block.each([&](auto lane) {
      const std::uint32_t x = lane.index() % side;
      for (std::uint32_t y = lane.index() / side; y < side; y += threads / side) {
        const std::uint64_t from = std::uint64_t{tile_y * side + y} * columns + tile_x * side + x;
        lane.store(tile, y * (side + 1) + x, lane.load(in, from));
      }
    });
    block.each([&](auto lane) {
      const std::uint32_t x = lane.index() % side;
      for (std::uint32_t y = lane.index() / side; y < side; y += threads / side) {
        const std::uint64_t to = std::uint64_t{tile_x * side + y} * rows + tile_y * side + x;
        lane.store(out, to, lane.load(tile, x * (side + 1) + y));
      }
    });
  }
};

__device__ __forceinline__ void transpose_by_hand(const transpose& k) {
  extern __shared__ __align__(16) unsigned char memory[];
  auto* tile = reinterpret_cast<float*>(memory);
  const std::uint32_t tiles = k.columns / 32;
  const std::uint32_t tile_x = blockIdx.x % tiles;
  const std::uint32_t tile_y = blockIdx.x / tiles;
  const std::uint32_t x = threadIdx.x % 32;
  for (std::uint32_t y = threadIdx.x / 32; y < 32; y += 8) {
    tile[y * 33 + x] =
        __ldg(&k.in.data[std::uint64_t{tile_y * 32 + y} * k.columns + tile_x * 32 + x]);
  }
  __syncthreads();
  for (std::uint32_t y = threadIdx.x / 32; y < 32; y += 8) {
    k.out.data[std::uint64_t{tile_x * 32 + y} * k.rows + tile_y * 32 + x] = tile[x * 33 + y];
  }
}

// --- a reduction over a warp, then over the block ------------------------------------------------

struct block_sum {
  static constexpr std::uint32_t threads = 256;
  local<const float> in;
  interlace::reduced<float> total;
  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    auto partial = interlace::shared<float>(block, threads / 32);
    block.each_warp([&](auto warp) {
      auto value = interlace::lane_state<float>(block);
      warp.each([&](auto lane) {
        float sum = 0;
        for (auto i : lane.range(lane.global_index(), in.size, lane.global_count())) {
          sum += lane.load(in, i);
        }
        value[lane] = sum;
      });
      const float sum = warp.sum(value);
      warp.each([&](auto lane) {
        if (lane.in_warp() == 0) lane.store(partial, warp.index(), sum);
      });
    });
    block.each([&](auto lane) {
      if (lane.index() != 0) return;
      float sum = 0;
      for (std::uint32_t w = 0; w < threads / 32; ++w) sum += lane.load(partial, w);
      lane.reduce(total, 0, sum);
    });
  }
};

__device__ __forceinline__ void block_sum_by_hand(const block_sum& k) {
  extern __shared__ __align__(16) unsigned char memory[];
  auto* partial = reinterpret_cast<float*>(memory);
  float sum = 0;
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * 256 + threadIdx.x; i < k.in.size;
       i += std::uint64_t{gridDim.x} * 256) {
    sum += __ldg(k.in.data + i);
  }
  for (int mask = 16; mask != 0; mask /= 2) sum += __shfl_xor_sync(0xffffffffU, sum, mask);
  __syncwarp();
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  sum = 0;
  for (int w = 0; w < 8; ++w) sum += partial[w];
  const std::uint64_t copy = k.total.copies == 1 ? 0 : blockIdx.x % k.total.copies;
  atomicAdd(k.total.partial + copy * k.total.size, sum);
}

}  // namespace

// The entry points have C names, so that the test finds them in the listing.
#define INTERLACE_MODEL_AND_TWIN(name, arguments)                                       \
  extern "C" __global__ void __launch_bounds__(name::threads)                           \
      model_##name(const __grid_constant__ name kernel) {                               \
    using namespace interlace::device;                                                  \
    interlace::device::block<untracked, whole_grid, name::threads> block(whole_grid{}); \
    kernel(block);                                                                      \
  }                                                                                     \
  extern "C" __global__ void __launch_bounds__(name::threads)                           \
      twin_##name(const __grid_constant__ arguments kernel) {                           \
    name##_by_hand(kernel);                                                             \
  }

INTERLACE_MODEL_AND_TWIN(axpy, axpy_arguments)
INTERLACE_MODEL_AND_TWIN(row_sum, row_sum)
INTERLACE_MODEL_AND_TWIN(transpose, transpose)
INTERLACE_MODEL_AND_TWIN(block_sum, block_sum)
