// What a run of any workload is asked and gives, on every node.
//
// Problems are those of workload/shared/problem.hpp. The build compiles the functions here for each
// of them: sources that it makes (cmake/InterlaceWorkloads.cmake) have no more than
// INTERLACE_RUN_ON_CPU or INTERLACE_RUN_ON_GPUS.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kernel/region.hpp"
#include "machine/machine.hpp"

namespace interlace::run {

struct request {
  std::vector<std::uint64_t> boundaries;  // GPU g owns elements [boundaries[g], boundaries[g + 1])
  kernel::mechanism mechanism = kernel::mechanism::bulk_copy;
  // As a region's options of these names; read where the mechanism has them.
  std::uint32_t split_ranges = 8;
  std::uint64_t chunk_bytes = kernel::region_options{}.chunk_bytes;
  std::uint32_t agent_threads = kernel::region_options{}.agent_threads;
  kernel::agent_copy agent_copy = kernel::region_options{}.agent_copy;
  kernel::collective collective = kernel::collective::best_fitting;
  kernel::memory_hint hint = kernel::memory_hint::none;
  bool transfers = kernel::region_options{}.transfers;
  std::uint32_t iterations = 10;          // the most, where a tolerance is given
  double tolerance = 0;                   // stop once the residual is at most this; 0: never.
                                          // Without transfers it is looked at, and nothing stops
  std::function<void()> check_interrupt;  // may throw; called now and then
  std::string record;                     // simulated: the trace file to write; empty: none
  bool share_gpu = false;                 // real GPUs: they may stand for several devices each

  std::uint32_t gpus() const { return static_cast<std::uint32_t>(boundaries.size()) - 1; }
};

struct result {
  kernel::run_result run;
  std::uint32_t iterations = 0;
  double residual = 0;                     // of the last iteration, where a tolerance was given
  std::vector<std::vector<float>> values;  // as each GPU holds them
};

struct measurement {
  run::result result;           // of the last repeat; run.time_s is the median
  std::vector<double> times_s;  // of each repeat
  // NVLink counters of all GPUs, over all repeats; nothing where the driver has none.
  std::optional<double> data_tx_bytes;
  std::optional<double> raw_tx_bytes;
  std::vector<std::string> remarks;  // what went another way than asked, a sentence each
};

template <class Problem>
result on_host(const Problem& problem, const request& asked);

template <class Problem>
result on_sim(const Problem& problem, const request& asked, const machine::machine& described);

// Runs `warmup` times, then `repeats` times measured. The timeline and, where copies are behind the
// kernels, the part of the time in which only copies run come from three more runs with events in
// between, which are not among the times: copy_s is the median of that part, of the measured time.
template <class Problem>
measurement on_cuda(const Problem& problem, const request& asked, std::uint32_t warmup,
                    std::uint32_t repeats);

// The own GPU's part of a run that the processes make together which have joined (run/gpu.hpp): the
// request's mechanism says nothing, times are the own GPU's, and the values are those that it holds
// alone. Nothing is captured in a graph, and there is no timeline.
template <class Problem>
measurement on_nvshmem(const Problem& problem, const request& asked, std::uint32_t warmup,
                       std::uint32_t repeats);

}  // namespace interlace::run
