// Programs that see several GPUs as one, on the nodes that need no GPU.
#pragma once

#include "interlace/host/node.hpp"
#include "interlace/sim/node.hpp"
#include "run/unified.hpp"

namespace interlace::run {

template <class Problem>
unified_result unified_on_host(const Problem& problem, const unified_request& asked) {
  host::node node({.devices = asked.gpus, .warp_width = 32, .checks = false});
  return run_unified(node, problem, asked.placement);
}

template <class Problem>
unified_result unified_on_sim(const Problem& problem, const unified_request& asked,
                              const machine::machine& described) {
  sim::node node(described, asked.gpus, asked.check_interrupt);
  if (asked.loads.any()) node.treat_loads(asked.loads);
  workload::unified_placement placement = asked.placement;
  // Pages that can move begin on the first GPU, as in MGPUSim's unified memory.
  if (asked.loads.pages != kernel::page_moves::none && !placement.pages && !asked.own_pages) {
    placement.pages = kernel::page_placement::on(0);
  }
  return run_unified(node, problem, placement);
}

}  // namespace interlace::run

#define INTERLACE_RUN_UNIFIED_ON_CPU(problem)                              \
  template interlace::run::unified_result interlace::run::unified_on_host( \
      const problem&, const interlace::run::unified_request&);             \
  template interlace::run::unified_result interlace::run::unified_on_sim(  \
      const problem&, const interlace::run::unified_request&, const interlace::machine::machine&)
