#include "cuda/load_kernel.hpp"
#include "cuda/region/audit.hpp"
#include "cuda/region/wait.cuh"
#include "interlace/cuda/check.hpp"

namespace interlace::cuda {

namespace {

constexpr unsigned int audit_threads = 256;
constexpr unsigned int audit_blocks = 512;

// The chunk that contains an element, or table.count if there is none.
__device__ std::uint32_t chunk_of(const kernel::chunk_table& t, std::uint64_t element) {
  std::uint32_t low = 0;
  for (std::uint32_t high = t.count; low < high;) {
    const std::uint32_t middle = (low + high) / 2;
    if (t.chunks[middle].end > element) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low < t.count && t.chunks[low].begin <= element ? low : t.count;
}

__global__ void __launch_bounds__(audit_threads)
    audit_kernel(const __grid_constant__ barrier_arguments b,
                 const __grid_constant__ region_audit a,
                 const __grid_constant__ kernel::chunk_table t) {
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    region_audit::finding& found = *a.first;
    if (found.what != 0) {
      report(b, {.what = found.what == 1 ? failed_wait::outside : failed_wait::twice,
                 .region = t.region,
                 .chunk = chunk_of(t, found.element),
                 .block = found.block,
                 .other_block = found.other_block,
                 .element = found.element});
      found.what = 0;
    }
  }
  const std::uint64_t elements = a.end - a.begin;
  const std::uint64_t stride = std::uint64_t{gridDim.x} * blockDim.x;
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < elements;
       i += stride) {
    const unsigned int stored = a.stored[i];
    const unsigned int published = a.published[i];
    a.stored[i] = 0;
    a.published[i] = 0;
    if ((stored != 0) == (published != 0)) continue;
    const std::uint32_t chunk = chunk_of(t, a.begin + i);
    if (chunk == t.count) continue;
    report(b, {.what = stored != 0 ? failed_wait::unpublished : failed_wait::unstored,
               .region = t.region,
               .chunk = chunk,
               .block = (stored != 0 ? stored : published) - 1,
               .element = a.begin + i});
  }
}

}  // namespace

void launch_audit(const barrier_arguments& b, const region_audit& audit,
                  const kernel::chunk_table& table, cudaStream_t stream) {
  audit_kernel<<<audit_blocks, audit_threads, 0, stream>>>(b, audit, table);
  INTERLACE_CUDA_CHECK(cudaGetLastError());
}

void load_audit_kernels() { load_kernel(audit_kernel); }

}  // namespace interlace::cuda
