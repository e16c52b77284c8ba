// Tomographic reconstruction, as every node runs it.
#pragma once

#include <cstdint>

#include "run/workload.hpp"
#include "workload/ct.hpp"

namespace interlace::run {

struct ct_problem {
  workload::ct_scan scan;

  std::uint64_t elements() const { return std::uint64_t{scan.size} * scan.size; }

  template <class Node>
  workload::ct<Node> on(Node& node, const kernel::region_options& options) const {
    return {node, scan, options};
  }
};

}  // namespace interlace::run
