#include "run/unified_cuda.hpp"

#include <utility>

#include "cuda/node.hpp"

namespace interlace::run {

template <class Data>
measured_unified measure_unified(const Data& data, const unified_request& asked,
                                 std::uint32_t warmup, std::uint32_t repeats) {
  measured_unified found;
  for (std::uint32_t repeat = 0; repeat < warmup + repeats; ++repeat) {
    cuda::node_options options;
    options.devices = asked.gpus;
    cuda::node node(options);
    unified_result once = run_unified(node, data, asked.placement);
    if (repeat >= warmup) found.time_s.push_back(once.run.time_s);
    found.values = std::move(once.values);
  }
  return found;
}

#define INTERLACE_MEASURE_UNIFIED(data)                                                         \
  template measured_unified measure_unified(const data&, const unified_request&, std::uint32_t, \
                                            std::uint32_t)

INTERLACE_MEASURE_UNIFIED(workload::fir_data);
INTERLACE_MEASURE_UNIFIED(workload::transpose_data);
INTERLACE_MEASURE_UNIFIED(workload::multiply_data);
INTERLACE_MEASURE_UNIFIED(workload::atax_data);
INTERLACE_MEASURE_UNIFIED(workload::sparse_data);
INTERLACE_MEASURE_UNIFIED(workload::bicg_data);
INTERLACE_MEASURE_UNIFIED(workload::sort_data);
INTERLACE_MEASURE_UNIFIED(workload::aes_data);
INTERLACE_MEASURE_UNIFIED(workload::breadth_first_data);
INTERLACE_MEASURE_UNIFIED(workload::rank_iteration_data);
INTERLACE_MEASURE_UNIFIED(workload::kmeans_data);
INTERLACE_MEASURE_UNIFIED(workload::stencil_2d_data);
INTERLACE_MEASURE_UNIFIED(workload::convolution_data);

#undef INTERLACE_MEASURE_UNIFIED

}  // namespace interlace::run
