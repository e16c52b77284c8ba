// Shortest paths, as every node runs them.
#pragma once

#include <cstdint>
#include <utility>

#include "run/chosen.hpp"
#include "run/row_kernel.hpp"
#include "run/workload.hpp"
#include "workload/readers.hpp"
#include "workload/sssp.hpp"

namespace interlace::run {

struct sssp_problem {
  workload::sssp_graph graph;
  std::uint64_t source = 0;
  row_kernel kernel = row_kernel::balanced;
  bool to_readers = false;  // distances go to the devices with edges from them, not to all

  std::uint64_t elements() const { return graph.vertices; }

  template <class Node>
  auto on(Node& node, kernel::region_options options) const {
    using balanced = workload::sssp<Node, workload::edge_units>;
    using by_warps = workload::sssp<Node, workload::row_warps>;
    using work = chosen<balanced, by_warps>;
    if (to_readers) {
      auto readers = workload::readers_of_columns(options.boundaries, graph.offsets, graph.columns,
                                                  graph.vertices);
      options = workload::sent_to_readers(std::move(options), std::move(readers));
    }
    return kernel == row_kernel::balanced
               ? work(std::in_place_type<balanced>, node, graph, std::move(options), source)
               : work(std::in_place_type<by_warps>, node, graph, std::move(options), source);
  }
};

}  // namespace interlace::run
