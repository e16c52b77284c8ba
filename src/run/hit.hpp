// Turbulence, as every node runs it. Where a GPU is to run it, cuda/fft.hpp has to be included
// before.
#pragma once

#include <cstdint>

#include "run/workload.hpp"
#include "workload/hit.hpp"

namespace interlace::run {

struct hit_problem {
  workload::turbulence_start start;

  std::uint64_t elements() const {
    return 6 * std::uint64_t{start.length} * start.length * (start.length / 2 + 1);
  }

  template <class Node>
  workload::hit<Node> on(Node& node, const kernel::region_options& options) const {
    workload::fft_on_gpu on_gpu;
    if constexpr (requires(const kernel::fft& f) { plan_fft(node, 0U, f); }) {
      on_gpu = [&node](std::uint32_t device, const kernel::fft& f) {
        return plan_fft(node, device, f);
      };
    }
    return {node, start, options, on_gpu};
  }
};

}  // namespace interlace::run
