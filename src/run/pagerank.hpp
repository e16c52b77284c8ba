// PageRank, as every node runs it.
#pragma once

#include <cstdint>
#include <utility>

#include "run/workload.hpp"
#include "workload/pagerank.hpp"

namespace interlace::run {

struct pagerank_problem {
  workload::pagerank_graph graph;
  float damping = 0.85F;

  std::uint64_t elements() const { return graph.vertices; }

  template <class Node>
  workload::pagerank<Node> on(Node& node, kernel::region_options options) const {
    return {node, graph, std::move(options), damping};
  }
};

}  // namespace interlace::run
