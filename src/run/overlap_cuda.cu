#include "base/errors.hpp"
#include "cuda/node.hpp"
#include "run/overlap_cuda.hpp"
#include "workload/overlap.hpp"

namespace interlace::run {

overlap_measurement overlap_on_cuda(const overlap_request& request) {
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

  const auto own = work.values(0);
  for (std::uint64_t i = 0; i < elements; i += elements < 4096 ? 1 : elements / 1024 - 1) {
    if (own[i] == workload::overlap_producer::value(i, request.rounds, seed)) continue;
    throw device_error("the microbenchmark computed element " + std::to_string(i) + " wrongly");
  }
  for (std::uint32_t d = 1; d < node.devices(); ++d) {
    const auto got = work.values(d);
    for (std::uint64_t i = 0; i < elements; ++i) {
      if (got[i] == own[i]) continue;
      throw device_error("GPU " + std::to_string(d) + " did not get element " + std::to_string(i));
    }
  }
  measured.remarks = node.remarks();
  return measured;
}

}  // namespace interlace::run
