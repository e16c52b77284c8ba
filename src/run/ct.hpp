// Tomographic reconstruction, as every node runs it.
#pragma once

#include <cstdint>

#include "run/workload.hpp"
#include "workload/ct.hpp"

namespace interlace::run {

struct ct_problem {
  workload::ct_scan scan;
  bool to_readers = false;  // rays go to the devices whose pixels they cross, not to all

  std::uint64_t elements() const { return std::uint64_t{scan.size} * scan.size; }

  template <class Node>
  workload::ct<Node> on(Node& node, const kernel::region_options& options) const {
    return {node, scan, options, to_readers};
  }
};

}  // namespace interlace::run
