// Heat and Burgers' equation, as every node runs them.
#pragma once

#include <cstdint>

#include "run/workload.hpp"
#include "workload/diffusion.hpp"

namespace interlace::run {

struct diffusion_problem {
  workload::diffusion_start start;

  std::uint64_t elements() const { return start.shape.points(); }

  template <class Node>
  workload::diffusion<Node> on(Node& node, const kernel::region_options& options) const {
    return {node, start, options};
  }
};

}  // namespace interlace::run
