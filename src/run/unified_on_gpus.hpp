// Programs that see several GPUs as one, on the GPUs of this computer.
#pragma once

#include <cstdint>
#include <utility>

#include "interlace/cuda/node.hpp"
#include "run/unified.hpp"

namespace interlace::run {

template <class Problem>
measured_unified unified_on_cuda(const Problem& problem, const unified_request& asked,
                                 std::uint32_t warmup, std::uint32_t repeats) {
  measured_unified found;
  for (std::uint32_t repeat = 0; repeat < warmup + repeats; ++repeat) {
    cuda::node_options options;
    options.devices = asked.gpus;
    cuda::node node(options);
    unified_result once = run_unified(node, problem, asked.placement);
    if (repeat >= warmup) found.time_s.push_back(once.run.time_s);
    found.values = std::move(once.values);
  }
  return found;
}

}  // namespace interlace::run

#define INTERLACE_RUN_UNIFIED_ON_GPUS(problem)                               \
  template interlace::run::measured_unified interlace::run::unified_on_cuda( \
      const problem&, const interlace::run::unified_request&, std::uint32_t, std::uint32_t)
