// Programs that see several GPUs as one (workload/unified_program.hpp), as nodes run them.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "kernel/region.hpp"
#include "machine/machine.hpp"
#include "workload/aes.hpp"
#include "workload/atax.hpp"
#include "workload/bicg.hpp"
#include "workload/bitonic_sort.hpp"
#include "workload/breadth_first.hpp"
#include "workload/convolution.hpp"
#include "workload/fir.hpp"
#include "workload/kmeans.hpp"
#include "workload/matrix_multiply.hpp"
#include "workload/matrix_transpose.hpp"
#include "workload/rank_iteration.hpp"
#include "workload/sparse_product.hpp"
#include "workload/stencil_2d.hpp"

namespace interlace::run {

struct unified_request {
  std::uint32_t gpus = 1;
  workload::unified_placement placement;
  bool own_pages = false;                 // pages that move begin where each array has them, too
  kernel::remote_load_options loads;      // simulated: what becomes of remote ones
  std::function<void()> check_interrupt;  // may throw; called now and then
};

struct unified_result {
  kernel::run_result run;
  std::vector<float> values;
};

// A program for each kind of data.
template <class Node>
workload::fir<Node> unified_program(Node& node, const workload::fir_data& data,
                                    const workload::unified_placement& placement) {
  return {node, data, placement};
}
template <class Node>
workload::matrix_transpose<Node> unified_program(Node& node, const workload::transpose_data& data,
                                                 const workload::unified_placement& placement) {
  return {node, data, placement};
}
template <class Node>
workload::matrix_multiply<Node> unified_program(Node& node, const workload::multiply_data& data,
                                                const workload::unified_placement& placement) {
  return {node, data, placement};
}
template <class Node>
workload::atax<Node> unified_program(Node& node, const workload::atax_data& data,
                                     const workload::unified_placement& placement) {
  return {node, data, placement};
}
template <class Node>
workload::bicg<Node> unified_program(Node& node, const workload::bicg_data& data,
                                     const workload::unified_placement& placement) {
  return {node, data, placement};
}
template <class Node>
workload::bitonic_sort<Node> unified_program(Node& node, const workload::sort_data& data,
                                             const workload::unified_placement& placement) {
  return {node, data, placement};
}
template <class Node>
workload::aes<Node> unified_program(Node& node, const workload::aes_data& data,
                                    const workload::unified_placement& placement) {
  return {node, data, placement};
}
template <class Node>
workload::sparse_product<Node> unified_program(Node& node, const workload::sparse_data& data,
                                               const workload::unified_placement& placement) {
  return {node, data, placement};
}
template <class Node>
workload::breadth_first<Node> unified_program(Node& node, const workload::breadth_first_data& data,
                                              const workload::unified_placement& placement) {
  return {node, data, placement};
}
template <class Node>
workload::rank_iteration<Node> unified_program(Node& node,
                                               const workload::rank_iteration_data& data,
                                               const workload::unified_placement& placement) {
  return {node, data, placement};
}
template <class Node>
workload::kmeans<Node> unified_program(Node& node, const workload::kmeans_data& data,
                                       const workload::unified_placement& placement) {
  return {node, data, placement};
}
template <class Node>
workload::stencil_2d<Node> unified_program(Node& node, const workload::stencil_2d_data& data,
                                           const workload::unified_placement& placement) {
  return {node, data, placement};
}
template <class Node>
workload::convolution<Node> unified_program(Node& node, const workload::convolution_data& data,
                                            const workload::unified_placement& placement) {
  return {node, data, placement};
}

// A program whose host decides, by what has come out so far, whether it goes on has
//   bool another()   called after each run; whether enqueue has more
// The times of its runs are added up. All other figures are those of the last one, which on
// simulated machines count all runs of a node.
template <class Node, class Data>
unified_result run_unified(Node& node, const Data& data,
                           const workload::unified_placement& placement) {
  auto program = unified_program(node, data, placement);
  unified_result result;
  result.run = node.run([&] { program.enqueue(); });
  if constexpr (requires { program.another(); }) {
    while (program.another()) {
      const double before = result.run.time_s;
      result.run = node.run([&] { program.enqueue(); });
      result.run.time_s += before;
    }
  }
  result.values = program.result();
  return result;
}

// Each throws usage_error for data that make no problem.
template <class Data>
unified_result unified_on_host(const Data& data, const unified_request& asked);

template <class Data>
unified_result unified_on_sim(const Data& data, const unified_request& asked,
                              const machine::machine& described);

}  // namespace interlace::run
