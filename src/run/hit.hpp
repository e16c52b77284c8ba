// Turbulence, as every node runs it. Where a GPU is to run it, cuda/fft.hpp has to be included
// before.
#pragma once

#include <cstdint>
#include <utility>

#include "run/chosen.hpp"
#include "run/point_kernel.hpp"
#include "run/workload.hpp"
#include "workload/hit.hpp"

namespace interlace::run {

struct hit_problem {
  workload::turbulence_start start;
  point_kernel kernel = point_kernel::runs;

  std::uint64_t elements() const {
    return 6 * std::uint64_t{start.length} * start.length * (start.length / 2 + 1);
  }

  template <class Node>
  auto on(Node& node, const kernel::region_options& options) const {
    workload::fft_on_gpu on_gpu;
    if constexpr (requires(const kernel::fft& f) { plan_fft(node, 0U, f); }) {
      on_gpu = [&node](std::uint32_t device, const kernel::fft& f) {
        return plan_fft(node, device, f);
      };
    }
    using by_runs = workload::hit<Node, workload::point_runs>;
    using by_tiles = workload::hit<Node, workload::point_tiles>;
    using work = chosen<by_runs, by_tiles>;
    return kernel == point_kernel::runs
               ? work(std::in_place_type<by_runs>, node, start, options, on_gpu)
               : work(std::in_place_type<by_tiles>, node, start, options, on_gpu);
  }
};

}  // namespace interlace::run
