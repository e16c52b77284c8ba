#include <cmath>
#include <cub/device/device_radix_sort.cuh>
#include <string>

#include "cuda/library.hpp"
#include "interlace/base/errors.hpp"
#include "interlace/cuda/check.hpp"

namespace interlace::cuda {

namespace {

constexpr unsigned int threads = 256;

unsigned int blocks_for(std::uint64_t n) {
  const std::uint64_t blocks = (n + threads - 1) / threads;
  return static_cast<unsigned int>(blocks < 1 ? 1 : blocks < (1U << 20U) ? blocks : (1U << 20U));
}

__device__ std::uint64_t grid_index() {
  return std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
}
__device__ std::uint64_t grid_stride() { return std::uint64_t{gridDim.x} * blockDim.x; }

struct rmat_thresholds {
  std::uint64_t a, ab, abc;
};

// Makes the key of each edge: target << scale | source.
__global__ void __launch_bounds__(threads)
    generate_edges(std::uint64_t* keys, std::uint64_t edges, std::uint32_t scale,
                   std::uint64_t seed, rmat_thresholds at, std::uint32_t* out_degree) {
  constexpr std::uint64_t golden = 0x9E3779B97F4A7C15ULL;
  for (std::uint64_t k = grid_index(); k < edges; k += grid_stride()) {
    std::uint64_t source = 0;
    std::uint64_t target = 0;
    const std::uint64_t x = seed * golden + k * scale + golden;
    for (std::uint32_t level = 0; level < scale; ++level) {
      std::uint64_t z = x + level;
      z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
      z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
      const std::uint64_t u = (z ^ (z >> 31)) >> 32;
      const std::uint64_t source_bit = u >= at.ab ? 1 : 0;
      const std::uint64_t target_bit = (u >= at.a && u < at.ab) || u >= at.abc ? 1 : 0;
      source = 2 * source + source_bit;
      target = 2 * target + target_bit;
    }
    keys[k] = target << scale | source;
    atomicAdd(out_degree + source, 1U);
  }
}

// Sets offsets[v] to the index of the first sorted key whose target is v or more.
__global__ void __launch_bounds__(threads)
    find_rows(const std::uint64_t* keys, std::uint64_t edges, std::uint32_t scale,
              std::uint64_t rows, std::uint64_t* offsets) {
  for (std::uint64_t v = grid_index(); v <= rows; v += grid_stride()) {
    std::uint64_t low = 0;
    std::uint64_t high = edges;
    while (low < high) {
      const std::uint64_t middle = (low + high) / 2;
      if ((keys[middle] >> scale) < v) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    offsets[v] = low;
  }
}

__global__ void __launch_bounds__(threads)
    take_sources(const std::uint64_t* keys, std::uint64_t edges, std::uint32_t scale,
                 std::uint32_t* columns) {
  const std::uint64_t mask = (std::uint64_t{1} << scale) - 1;
  for (std::uint64_t k = grid_index(); k < edges; k += grid_stride()) {
    columns[k] = static_cast<std::uint32_t>(keys[k] & mask);
  }
}

void copy(void* to, const void* from, std::uint64_t bytes, cudaStream_t stream) {
  if (bytes != 0) {
    INTERLACE_CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream));
  }
}

}  // namespace

void sort_keys(node& n, std::uint32_t device, const local<std::uint64_t>& keys,
               const local<std::uint64_t>& spare, std::uint32_t bits) {
  if (spare.size < keys.size) throw model_error("a sort needs as much spare memory as keys");
  const current_device on(n.ordinal(device));
  cudaStream_t stream = n.stream(device);
  cub::DoubleBuffer<std::uint64_t> both(keys.data, spare.data);
  std::size_t bytes = 0;
  const int end = static_cast<int>(bits);
  INTERLACE_CUDA_CHECK(
      cub::DeviceRadixSort::SortKeys(nullptr, bytes, both, keys.size, 0, end, stream));
  device_memory scratch;
  void* temporary = scratch.take(n.ordinal(device), bytes);
  INTERLACE_CUDA_CHECK(
      cub::DeviceRadixSort::SortKeys(temporary, bytes, both, keys.size, 0, end, stream));
  if (both.Current() != keys.data) {
    copy(keys.data, both.Current(), keys.size * sizeof(std::uint64_t), stream);
  }
  n.synchronize();
}

device_graph make_rmat(node& n, std::uint32_t device, const rmat_options& o) {
  const double sum = (o.a + o.b) + o.c;
  if (o.scale < 1 || o.scale > 31) {
    throw usage_error("R-MAT scale " + std::to_string(o.scale) + ": give a number from 1 to 31");
  }
  if (!(o.a >= 0 && o.b >= 0 && o.c >= 0 && sum <= 1) || o.edge_factor == 0) {
    throw usage_error(
        "R-MAT: a, b and c must be at least 0, their sum at most 1, and the edge factor above 0");
  }
  const auto threshold = [](double p) {
    return static_cast<std::uint64_t>(std::floor(std::ldexp(p, 32)));
  };
  const rmat_thresholds at{.a = threshold(o.a), .ab = threshold(o.a + o.b), .abc = threshold(sum)};

  device_graph g;
  g.rows = std::uint64_t{1} << o.scale;
  g.edges = g.rows * o.edge_factor;
  g.offsets = n.allocate<std::uint64_t>(device, g.rows + 1);
  g.columns = n.allocate<std::uint32_t>(device, g.edges);
  g.out_degree = n.allocate<std::uint32_t>(device, g.rows);
  const current_device on(n.ordinal(device));
  cudaStream_t stream = n.stream(device);
  device_memory scratch;
  const std::uint64_t key_bytes = g.edges * sizeof(std::uint64_t);
  const local<std::uint64_t> keys{
      static_cast<std::uint64_t*>(scratch.take(n.ordinal(device), key_bytes)), g.edges};
  const local<std::uint64_t> spare{
      static_cast<std::uint64_t*>(scratch.take(n.ordinal(device), key_bytes)), g.edges};
  INTERLACE_CUDA_CHECK(
      cudaMemsetAsync(g.out_degree.data, 0, g.rows * sizeof(std::uint32_t), stream));
  generate_edges<<<blocks_for(g.edges), threads, 0, stream>>>(keys.data, g.edges, o.scale, o.seed,
                                                              at, g.out_degree.data);
  INTERLACE_CUDA_CHECK(cudaGetLastError());
  sort_keys(n, device, keys, spare, 2 * o.scale);
  find_rows<<<blocks_for(g.rows + 1), threads, 0, stream>>>(keys.data, g.edges, o.scale, g.rows,
                                                            g.offsets.data);
  INTERLACE_CUDA_CHECK(cudaGetLastError());
  take_sources<<<blocks_for(g.edges), threads, 0, stream>>>(keys.data, g.edges, o.scale,
                                                            g.columns.data);
  INTERLACE_CUDA_CHECK(cudaGetLastError());
  n.synchronize();
  return g;
}

}  // namespace interlace::cuda
