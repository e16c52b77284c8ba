// A ring of numbers on all GPUs. Each GPU smooths its part of the ring, and an agent sends finished
// chunks while the kernel still runs. docs/how-to/regions.md has the command.
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <vector>

#include "interlace/region_device.cuh"

__global__ void smooth(interlace::region_writer<float> r, std::uint64_t begin, std::uint64_t end) {
  const float* u = r.view.front;
  const std::uint64_t n = r.view.size;
  const std::uint64_t first = begin + std::uint64_t{blockIdx.x} * blockDim.x;
  const std::uint64_t i = first + threadIdx.x;
  if (i < end) interlace::store(r, i, (u[(i + n - 1) % n] + u[i] + u[(i + 1) % n]) / 3.0F);
  interlace::publish(r, first, min(end, first + blockDim.x));
}

int main() try {
  const auto group = interlace::group::all();
  std::vector<float> numbers(1U << 22U, 0.0F);
  std::fill_n(numbers.begin(), 1000, 1.0F);
  interlace::region_spec spec;
  spec.elements = numbers.size();
  spec.element_bytes = sizeof(float);
  spec.mechanism = "polling";
  interlace::region ring(group, spec);
  const std::size_t bytes = numbers.size() * sizeof(float);

  std::vector<cudaStream_t> streams(group.devices());
  for (std::uint32_t d = 0; d < group.devices(); ++d) {
    cudaSetDevice(group.ordinal(d));
    cudaStreamCreate(&streams[d]);
    cudaFuncAttributes loaded;
    cudaFuncGetAttributes(&loaded, smooth);  // loads the kernel before anything waits
    cudaMemcpy(ring.front(d), numbers.data(), bytes, cudaMemcpyHostToDevice);
  }
  for (int step = 0; step < 100; ++step) {
    for (std::uint32_t d = 0; d < group.devices(); ++d) {
      cudaSetDevice(group.ordinal(d));
      const auto [begin, end] = ring.part(d);
      ring.begin(d, streams[d]);
      smooth<<<(end - begin + 255) / 256, 256, 0, streams[d]>>>(ring.writer<float>(d), begin, end);
      ring.exchange(d, streams[d]);
    }
  }
  for (std::uint32_t d = 0; d < group.devices(); ++d) {
    group.synchronize(d, streams[d]);  // throws if a deadline has passed
    cudaMemcpy(numbers.data(), ring.front(d), bytes, cudaMemcpyDefault);
    const double sum = std::accumulate(numbers.begin(), numbers.end(), 0.0);
    std::printf("GPU %u: the sum is %.3f, and was 1000\n", d, sum);
    if (std::abs(sum - 1000) > 0.1) return 1;
  }
} catch (const std::exception& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 2;
}
