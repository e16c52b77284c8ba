// Runs programs that see several GPUs as one (workload/shared/unified_program.hpp), on all nodes.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "interlace/kernel/region.hpp"
#include "interlace/machine/machine.hpp"
#include "workload/shared/unified_program.hpp"

namespace interlace::run {

struct unified_request {
  std::uint32_t gpus = 1;
  workload::unified_placement placement;
  // If true, each page begins on the GPU that its array asks for, even if pages can move.
  bool own_pages = false;
  kernel::remote_load_options loads;  // how remote loads are treated; only for simulated nodes
  // The run calls this function from time to time; the function may throw.
  std::function<void()> check_interrupt;
};

struct unified_result {
  kernel::run_result run;
  std::vector<float> values;
};

// Runs a program and adds up the times of its runs. All other figures are those of the last run. On
// simulated machines, these figures cover all runs of a node.
template <class Node, class Problem>
unified_result run_unified(Node& node, const Problem& problem,
                           const workload::unified_placement& placement) {
  auto program = problem.on(node, placement);
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

// unified_on_host and unified_on_sim throw usage_error if the data is not a valid problem.
template <class Problem>
unified_result unified_on_host(const Problem& problem, const unified_request& asked);

template <class Problem>
unified_result unified_on_sim(const Problem& problem, const unified_request& asked,
                              const machine::machine& described);

struct measured_unified {
  std::vector<double> time_s;  // the time of the kernels of all devices, in each repeat
  std::vector<float> values;   // the values after the last repeat
};

// Runs the program `warmup + repeats` times, each time from the initial data. Uses only `gpus` and
// `placement` of `asked`. A remote load or store goes to the GPU that has the page, line by line.
// Throws usage_error if the data is not a valid problem, and device_error if a GPU fails.
template <class Problem>
measured_unified unified_on_cuda(const Problem& problem, const unified_request& asked,
                                 std::uint32_t warmup, std::uint32_t repeats);

}  // namespace interlace::run
