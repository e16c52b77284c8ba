// Requests and results of workload runs, on every node.
//
// interlace/workload/problem.hpp describes problems. The build compiles the functions declared here
// for each problem: the sources that it generates (cmake/InterlaceWorkloads.cmake) contain little
// more than INTERLACE_RUN_ON_CPU or INTERLACE_RUN_ON_GPUS.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "interlace/kernel/region.hpp"
#include "interlace/machine/machine.hpp"

namespace interlace::run {

struct request {
  std::vector<std::uint64_t> boundaries;  // GPU g owns elements [boundaries[g], boundaries[g + 1])
  kernel::mechanism mechanism = kernel::mechanism::bulk_copy;
  // Options with these names in region_options. A mechanism uses those that it has.
  std::uint32_t split_ranges = 8;
  std::uint64_t chunk_bytes = kernel::region_options{}.chunk_bytes;
  std::uint32_t agent_threads = kernel::region_options{}.agent_threads;
  kernel::agent_copy agent_copy = kernel::region_options{}.agent_copy;
  kernel::collective collective = kernel::collective::best_fitting;
  kernel::memory_hint hint = kernel::memory_hint::none;
  bool transfers = kernel::region_options{}.transfers;
  std::uint32_t iterations = 10;  // if there is a tolerance: the most iterations
  // A run stops once the residual is at most this tolerance; 0: it never stops early. Without
  // transfers the residual is computed, but the run does not stop.
  double tolerance = 0;
  std::function<void()> check_interrupt;  // the run calls it from time to time; it may throw
  std::string record;                     // only simulated: the trace file to write; empty: none
  // Only simulated: whether every iteration is simulated. If not, and if iterations repeat, only
  // the first ones are simulated (interlace/run/on_cpu.hpp).
  bool whole = true;
  // Only simulated: whether workloads that cut their blocks for the threads that a GPU holds do so
  // for the described machine. If not, their blocks are the same on every machine.
  bool cut_like_gpus = false;
  // Only simulated: the number of threads of the simulation. Results are the same for every number.
  std::uint32_t threads = 1;
  bool share_gpu = false;  // only on real GPUs: a GPU may stand for several devices

  std::uint32_t gpus() const { return static_cast<std::uint32_t>(boundaries.size()) - 1; }
};

struct result {
  kernel::run_result run;
  std::uint32_t iterations = 0;
  std::uint32_t timed = 0;      // only simulated: the number of iterations that were simulated
  double warm_iteration_s = 0;  // only sampled runs: the mean time of the iterations that repeat
  double residual = 0;          // residual of the last iteration, if a tolerance was given
  std::vector<std::vector<float>> values;  // for each GPU, the values that it holds
};

struct measurement {
  run::result result;  // result of the last repeat; run.time_s is the median of all repeats
  std::vector<double> times_s;  // the time of each repeat
  // Sums of the NVLink counters over all GPUs and repeats. No value if the driver has no such
  // counters.
  std::optional<double> data_tx_bytes;
  std::optional<double> raw_tx_bytes;
  std::vector<std::string> remarks;  // one sentence for each thing that did not go as requested
};

template <class Problem>
result on_host(const Problem& problem, const request& asked);

template <class Problem>
result on_sim(const Problem& problem, const request& asked, const machine::machine& described);

// Runs the workload `warmup` times, then makes `repeats` measured runs. Then it makes three more
// runs with additional events, which do not count as measured. These runs give the timeline. If the
// mechanism copies after the kernels, they also give the fraction of the time in which only copies
// run; copy_s is the median of that fraction times the measured time.
template <class Problem>
measurement on_cuda(const Problem& problem, const request& asked, std::uint32_t warmup,
                    std::uint32_t repeats);

// Runs this GPU's part of a workload that several processes run together. Every process must have
// called join_nvshmem (run/gpu.hpp). The request's mechanism is ignored. The result has only this
// GPU's times and replica. Nothing is captured in a graph, and there is no timeline.
template <class Problem>
measurement on_nvshmem(const Problem& problem, const request& asked, std::uint32_t warmup,
                       std::uint32_t repeats);

}  // namespace interlace::run
