#include <algorithm>
#include <limits>

#include "bench/overlap_cuda.hpp"
#include "interlace/base/errors.hpp"
#include "interlace/cuda/check.hpp"
#include "interlace/cuda/node.hpp"
#include "interlace/run/launching.hpp"
#include "workload/benchmark/overlap.hpp"

namespace interlace::bench {

namespace {

// Finds the first element that differs from the kernel's result for these rounds and this seed.
__global__ void find_wrong(replicated<workload::quad> data, std::uint32_t rounds,
                           std::uint32_t seed, unsigned long long* first) {
  const std::uint64_t stride = std::uint64_t{gridDim.x} * blockDim.x;
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < data.size;
       i += stride) {
    const workload::quad expected = workload::overlap_producer::value(i, rounds, seed);
    for (std::uint32_t k = 0; k < 4; ++k) {
      if (data.front[i].word[k] != expected.word[k]) atomicMin(first, i);
    }
  }
}

// Verifies a device's whole replica on the GPU, and samples of it on the CPU.
void verify(cuda::node& node, std::uint32_t device, const replicated<workload::quad>& data,
            std::uint32_t rounds, std::uint32_t seed) {
  constexpr auto none = std::numeric_limits<unsigned long long>::max();
  const auto first = node.allocate<unsigned long long>(device, 1);
  node.upload(first, {none});
  INTERLACE_CUDA_CHECK(cudaSetDevice(node.ordinal(device)));
  find_wrong<<<1024, 256, 0, node.stream(device)>>>(data, rounds, seed, first.data);
  INTERLACE_CUDA_CHECK(cudaGetLastError());
  node.synchronize();
  unsigned long long wrong = node.download(first)[0];
  constexpr std::uint64_t samples = 64;
  for (std::uint64_t k = 0; k < samples; ++k) {
    const std::uint64_t i = (data.size - 1) * k / (samples - 1);
    workload::quad seen;
    INTERLACE_CUDA_CHECK(cudaMemcpy(&seen, data.front + i, sizeof(seen), cudaMemcpyDefault));
    if (seen == workload::overlap_producer::value(i, rounds, seed)) continue;
    wrong = std::min<unsigned long long>(wrong, i);
  }
  if (wrong != none) {
    throw device_error("GPU " + std::to_string(device) + " does not have element " +
                       std::to_string(wrong) + " of the microbenchmark");
  }
}

}  // namespace

overlap_measurement overlap_on_cuda(const overlap_request& request) {
  if (request.how.mechanism == kernel::mechanism::device_launch) {
    run::add_launching_kernels_of<workload::overlap_problem>();
  }
  cuda::node_options options;
  options.devices = request.deliver ? request.peers + 1 : 1;
  cuda::node node(options);
  const std::uint64_t elements = request.bytes / sizeof(workload::quad);
  if (elements == 0 || request.epochs == 0 || request.repeats == 0) {
    throw usage_error("the microbenchmark needs bytes, epochs and repeats");
  }
  workload::overlap<cuda::node> work(node, elements, request.how);
  overlap_measurement measured;
  std::uint32_t seed = 1;
  const auto run_once = [&] {
    const auto result = node.run([&] {
      for (std::uint32_t e = 0; e < request.epochs; ++e) work.enqueue_epoch(request.rounds, ++seed);
    });
    return result.time_s / request.epochs;
  };
  for (std::uint32_t i = 0; i < request.warmup; ++i) run_once();
  for (std::uint32_t i = 0; i < request.repeats; ++i) measured.epoch_s.push_back(run_once());

  const std::uint32_t reached = request.how.transfers ? node.devices() : 1;
  for (std::uint32_t d = 0; d < reached; ++d) {
    verify(node, d, work.view(d), request.rounds, seed);
  }
  measured.remarks = node.remarks();
  return measured;
}

}  // namespace interlace::bench
