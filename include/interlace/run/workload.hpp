// Requests and results of workload runs, on every node.
//
// Problems are described in interlace/workload/problem.hpp. The build compiles the functions here
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
  // Region options of the same names; used where the mechanism has them.
  std::uint32_t split_ranges = 8;
  std::uint64_t chunk_bytes = kernel::region_options{}.chunk_bytes;
  std::uint32_t agent_threads = kernel::region_options{}.agent_threads;
  kernel::agent_copy agent_copy = kernel::region_options{}.agent_copy;
  kernel::collective collective = kernel::collective::best_fitting;
  kernel::memory_hint hint = kernel::memory_hint::none;
  bool transfers = kernel::region_options{}.transfers;
  std::uint32_t iterations = 10;  // with a tolerance: the maximum
  // a run stops once the residual is at most this; 0: it never stops early. Without transfers the
  // residual is computed, but the run does not stop
  double tolerance = 0;
  std::function<void()> check_interrupt;  // called from time to time; may throw
  std::string record;                     // simulated only: the trace file to write; empty: none
  bool share_gpu = false;                 // real GPUs only: a GPU may stand for several devices

  std::uint32_t gpus() const { return static_cast<std::uint32_t>(boundaries.size()) - 1; }
};

struct result {
  kernel::run_result run;
  std::uint32_t iterations = 0;
  double residual = 0;                     // of the last iteration, if a tolerance was given
  std::vector<std::vector<float>> values;  // for each GPU: the values that it holds
};

struct measurement {
  run::result result;           // of the last repeat; run.time_s is the median
  std::vector<double> times_s;  // of each repeat
  // NVLink counters, summed over all GPUs and repeats; nothing if the driver has none.
  std::optional<double> data_tx_bytes;
  std::optional<double> raw_tx_bytes;
  std::vector<std::string> remarks;  // one sentence for each thing that did not go as requested
};

template <class Problem>
result on_host(const Problem& problem, const request& asked);

template <class Problem>
result on_sim(const Problem& problem, const request& asked, const machine::machine& described);

// Runs `warmup` times, then `repeats` measured times. Then makes three more runs with additional
// events. These runs do not count as measured. They give the timeline and, where copies follow the
// kernels, the fraction of the time in which only copies run. copy_s is the median of that
// fraction, applied to the measured time.
template <class Problem>
measurement on_cuda(const Problem& problem, const request& asked, std::uint32_t warmup,
                    std::uint32_t repeats);

// This GPU's part of a run by all processes that have joined (run/gpu.hpp). The request's mechanism
// is ignored. The result has the times and the replica of this GPU only. Nothing is captured in a
// graph, and there is no timeline.
template <class Problem>
measurement on_nvshmem(const Problem& problem, const request& asked, std::uint32_t warmup,
                       std::uint32_t repeats);

}  // namespace interlace::run
