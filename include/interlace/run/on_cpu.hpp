// Workloads on the nodes that need no GPU.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

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

// The number of iterations that a sampled run simulates. Iteration k uses the same buffers as
// iteration k - 2, because regions swap two buffers. The first two iterations are therefore cold.
// Every later iteration k repeats iteration k - 2.
inline constexpr std::uint32_t sampled_iterations = 4;

// Simulates only the first iterations, and runs the later iterations only for their results.
// Returns no value if an iteration after the first does other work than the previous iteration; in
// this case, the caller must simulate the whole run.
template <class Problem>
std::optional<result> sampled_on_sim(const Problem& problem, const request& asked,
                                     const machine::machine& described) {
  sim::node node(described, asked.gpus(), asked.check_interrupt);
  node.hold_threads(asked.cut_like_gpus);
  node.use_threads(asked.threads);
  auto work = problem.on(node, region_of(asked));
  result found;
  found.run = node.run([&] {
    for (std::uint32_t i = 0; i < sampled_iterations; ++i) {
      work.enqueue_iteration(false);
      node.end_iteration();
    }
  });
  if (!node.iterations_repeat()) return std::nullopt;
  for (std::uint32_t i = sampled_iterations; i < asked.iterations; ++i) {
    if (!node.run_untimed([&] { work.enqueue_iteration(false); })) return std::nullopt;
    if (asked.check_interrupt) asked.check_interrupt();
  }
  found.run = node.with_more(std::move(found.run), asked.iterations - sampled_iterations);
  found.iterations = asked.iterations;
  found.timed = sampled_iterations;
  found.warm_iteration_s = node.repeated_iteration_s();
  keep_values(node, work, found);
  return found;
}

// Whether a run may be sampled. A run with a tolerance may not, because its residual decides when
// it ends and only some iterations compute the residual.
inline bool may_be_sampled(const request& asked) {
  return !asked.whole && asked.tolerance == 0 && asked.record.empty() && asked.transfers &&
         asked.iterations > sampled_iterations;
}

template <class Problem>
result on_sim(const Problem& problem, const request& asked, const machine::machine& described) {
  if (may_be_sampled(asked)) {
    if (auto found = sampled_on_sim(problem, asked, described)) return *std::move(found);
  }
  sim::node node(described, asked.gpus(), asked.check_interrupt);
  node.hold_threads(asked.cut_like_gpus);
  node.use_threads(asked.threads);
  if (!asked.record.empty()) node.record(asked.record);
  result found = run_once(node, problem, asked);
  if (!asked.record.empty()) node.finish_recording();
  found.timed = found.iterations;
  return found;
}

}  // namespace interlace::run

#define INTERLACE_RUN_ON_CPU(problem)                                                      \
  template interlace::run::result interlace::run::on_host(const problem&,                  \
                                                          const interlace::run::request&); \
  template interlace::run::result interlace::run::on_sim(                                  \
      const problem&, const interlace::run::request&, const interlace::machine::machine&)
