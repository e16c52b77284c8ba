// Workloads on the nodes that need no GPU.
#pragma once

#include "interlace/host/node.hpp"
#include "interlace/run/iterate.hpp"
#include "interlace/sim/node.hpp"

namespace interlace::run {

template <class Node, class Problem>
result run_once(Node& node, const Problem& problem, const request& asked) {
  auto work = problem.on(node, region_of(asked));
  result found = iterate(node, work, asked);
  keep_values(node, work, found);
  return found;
}

template <class Problem>
result on_host(const Problem& problem, const request& asked) {
  host::node node({.devices = asked.gpus(), .warp_width = 32, .checks = true});
  return run_once(node, problem, asked);
}

template <class Problem>
result on_sim(const Problem& problem, const request& asked, const machine::machine& described) {
  sim::node node(described, asked.gpus(), asked.check_interrupt);
  if (!asked.record.empty()) node.record(asked.record);
  result found = run_once(node, problem, asked);
  if (!asked.record.empty()) node.finish_recording();
  return found;
}

}  // namespace interlace::run

#define INTERLACE_RUN_ON_CPU(problem)                                                      \
  template interlace::run::result interlace::run::on_host(const problem&,                  \
                                                          const interlace::run::request&); \
  template interlace::run::result interlace::run::on_sim(                                  \
      const problem&, const interlace::run::request&, const interlace::machine::machine&)
