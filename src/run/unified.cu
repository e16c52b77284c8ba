#include "cuda/node.hpp"
#include "run/unified.hpp"

namespace interlace::run {

template <class Data>
unified_result unified_on_cuda(const Data& data, const unified_request& asked) {
  cuda::node_options options;
  options.devices = asked.gpus;
  cuda::node node(options);
  run_unified(node, data, asked.placement);
  return run_unified(node, data, asked.placement);
}

#define INTERLACE_RUN_UNIFIED(data) \
  template unified_result unified_on_cuda(const data&, const unified_request&)

INTERLACE_RUN_UNIFIED(workload::fir_data);
INTERLACE_RUN_UNIFIED(workload::transpose_data);
INTERLACE_RUN_UNIFIED(workload::multiply_data);
INTERLACE_RUN_UNIFIED(workload::atax_data);
INTERLACE_RUN_UNIFIED(workload::sparse_data);

}  // namespace interlace::run
