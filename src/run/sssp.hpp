// Shortest paths, as every node runs them.
#pragma once

#include <cstdint>
#include <utility>

#include "run/workload.hpp"
#include "workload/sssp.hpp"

namespace interlace::run {

struct sssp_problem {
  workload::sssp_graph graph;
  std::uint64_t source = 0;

  std::uint64_t elements() const { return graph.vertices; }

  template <class Node>
  workload::sssp<Node> on(Node& node, kernel::region_options options) const {
    return {node, graph, std::move(options), source};
  }
};

}  // namespace interlace::run
