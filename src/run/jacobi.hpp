// The Jacobi iteration, as every node runs it.
#pragma once

#include <cstdint>
#include <utility>

#include "run/workload.hpp"
#include "workload/jacobi.hpp"

namespace interlace::run {

struct jacobi_problem {
  workload::banded_system system;
  bool halo = false;  // x goes only where rows need it, not to everybody

  std::uint64_t elements() const { return system.rows; }

  template <class Node>
  workload::jacobi<Node> on(Node& node, kernel::region_options options) const {
    return {node, system, std::move(options), halo};
  }
};

}  // namespace interlace::run
