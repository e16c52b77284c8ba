// The PageRank workload on each node.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "kernel/region.hpp"
#include "machine/machine.hpp"
#include "workload/pagerank.hpp"

namespace interlace::run {

struct pagerank_request {
  workload::pagerank_graph graph;
  std::vector<std::uint64_t> boundaries;  // GPU g owns vertices [boundaries[g], boundaries[g + 1])
  kernel::mechanism mechanism = kernel::mechanism::bulk_copy;
  std::uint32_t split_ranges = 8;
  float damping = 0.85F;
  std::uint32_t iterations = 10;  // the most, where a tolerance is given
  double tolerance = 0;           // stop once the sum of |rank' - rank| is at most this; 0: never
  std::function<void()> check_interrupt;  // may throw; called now and then

  std::uint32_t gpus() const { return static_cast<std::uint32_t>(boundaries.size()) - 1; }
};

struct pagerank_result {
  kernel::run_result run;
  std::uint32_t iterations = 0;
  double residual = 0;                    // of the last iteration, where a tolerance was given
  std::vector<std::vector<float>> ranks;  // as each GPU holds them
};

pagerank_result pagerank_on_host(const pagerank_request& request);
pagerank_result pagerank_on_sim(const pagerank_request& request, const machine::machine& described);

// With a tolerance, iterations between two looks at the residual.
inline constexpr std::uint32_t iterations_per_look = 5;
// The most that one run enqueues, so that a long one takes no more memory than a short one.
inline constexpr std::uint32_t iterations_per_run = 256;

// Iterations of the next run, after `done` of them.
inline std::uint32_t next_iterations(const pagerank_request& request, std::uint32_t done) {
  return std::min(request.tolerance > 0 ? iterations_per_look : iterations_per_run,
                  request.iterations - done);
}

inline kernel::region_options region_of(const pagerank_request& request) {
  kernel::region_options options;
  options.boundaries = request.boundaries;
  options.mechanism = request.mechanism;
  options.split_ranges = request.split_ranges;
  return options;
}

inline void add(kernel::run_result& sum, kernel::run_result part) {
  const bool first = sum.timeline.empty();
  sum.time_s += part.time_s;
  sum.copy_s += part.copy_s;
  // What a node counts, it counts over its whole life.
  sum.wire_known = part.wire_known;
  sum.wire = part.wire;
  sum.accesses = part.accesses;
  sum.remote_transactions = part.remote_transactions;
  if (first) sum.timeline = std::move(part.timeline);
}

template <class Node>
pagerank_result run_pagerank(Node& node, const pagerank_request& request) {
  workload::pagerank<Node> work(node, request.graph, region_of(request), request.damping);
  pagerank_result result;
  const bool until = request.tolerance > 0;
  while (result.iterations < request.iterations) {
    const std::uint32_t count = next_iterations(request, result.iterations);
    add(result.run, node.run([&] {
      for (std::uint32_t i = 0; i < count; ++i) work.enqueue_iteration(until && i + 1 == count);
    }));
    result.iterations += count;
    if (until) {
      result.residual = work.residual();
      if (result.residual <= request.tolerance) break;
    }
  }
  for (std::uint32_t d = 0; d < node.devices(); ++d) result.ranks.push_back(work.ranks(d));
  return result;
}

}  // namespace interlace::run
