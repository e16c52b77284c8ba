// PageRank, as every node runs it.
#pragma once

#include <cstdint>
#include <utility>

#include "run/chosen.hpp"
#include "run/row_kernel.hpp"
#include "run/workload.hpp"
#include "workload/pagerank.hpp"
#include "workload/readers.hpp"

namespace interlace::run {

struct pagerank_problem {
  workload::pagerank_graph graph;
  float damping = 0.85F;
  row_kernel kernel = row_kernel::balanced;
  bool to_readers = false;  // contributions go to the devices with edges from them, not to all

  std::uint64_t elements() const { return graph.vertices; }

  template <class Node>
  auto on(Node& node, kernel::region_options options) const {
    using balanced = workload::pagerank<Node, workload::edge_units>;
    using by_warps = workload::pagerank<Node, workload::row_warps>;
    using work = chosen<balanced, by_warps>;
    if (to_readers) {
      auto readers = workload::readers_of_columns(options.boundaries, graph.offsets, graph.columns,
                                                  graph.vertices);
      options = workload::sent_to_readers(std::move(options), std::move(readers));
    }
    return kernel == row_kernel::balanced
               ? work(std::in_place_type<balanced>, node, graph, std::move(options), damping)
               : work(std::in_place_type<by_warps>, node, graph, std::move(options), damping);
  }
};

}  // namespace interlace::run
