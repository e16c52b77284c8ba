#include "run/unified.hpp"

#include "host/node.hpp"
#include "sim/node.hpp"

namespace interlace::run {

template <class Data>
unified_result unified_on_host(const Data& data, const unified_request& asked) {
  host::node node({.devices = asked.gpus, .warp_width = 32, .checks = false});
  return run_unified(node, data, asked.placement);
}

template <class Data>
unified_result unified_on_sim(const Data& data, const unified_request& asked,
                              const machine::machine& described) {
  sim::node node(described, asked.gpus, asked.check_interrupt);
  if (asked.loads.any()) node.treat_loads(asked.loads);
  workload::unified_placement placement = asked.placement;
  // Pages that move begin on the first GPU, where MGPUSim's unified memory has them.
  if (asked.loads.pages != kernel::page_moves::none && !placement.pages && !asked.own_pages) {
    placement.pages = kernel::page_placement::on(0);
  }
  return run_unified(node, data, placement);
}

#define INTERLACE_RUN_UNIFIED(data)                                             \
  template unified_result unified_on_host(const data&, const unified_request&); \
  template unified_result unified_on_sim(const data&, const unified_request&,   \
                                         const machine::machine&)

INTERLACE_RUN_UNIFIED(workload::fir_data);
INTERLACE_RUN_UNIFIED(workload::transpose_data);
INTERLACE_RUN_UNIFIED(workload::multiply_data);
INTERLACE_RUN_UNIFIED(workload::atax_data);
INTERLACE_RUN_UNIFIED(workload::sparse_data);
INTERLACE_RUN_UNIFIED(workload::bicg_data);
INTERLACE_RUN_UNIFIED(workload::sort_data);
INTERLACE_RUN_UNIFIED(workload::aes_data);
INTERLACE_RUN_UNIFIED(workload::breadth_first_data);
INTERLACE_RUN_UNIFIED(workload::rank_iteration_data);
INTERLACE_RUN_UNIFIED(workload::kmeans_data);
INTERLACE_RUN_UNIFIED(workload::stencil_2d_data);
INTERLACE_RUN_UNIFIED(workload::convolution_data);

}  // namespace interlace::run
