// Requests and results of workload runs, on every node.
//
// interlace/workload/problem.hpp describes problems. The build compiles the functions that are
// declared here for each problem. For this purpose, the build generates sources
// (cmake/InterlaceWorkloads.cmake) that contain little more than INTERLACE_RUN_ON_CPU or
// INTERLACE_RUN_ON_GPUS.
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
  // The options that have the same names in region_options. A mechanism uses only the options that
  // it has.
  std::uint32_t split_ranges = 8;
  std::uint64_t chunk_bytes = kernel::region_options{}.chunk_bytes;
  std::uint32_t agent_threads = kernel::region_options{}.agent_threads;
  kernel::agent_copy agent_copy = kernel::region_options{}.agent_copy;
  kernel::collective collective = kernel::collective::best_fitting;
  kernel::memory_hint hint = kernel::memory_hint::none;
  bool transfers = kernel::region_options{}.transfers;
  std::uint32_t packet_bytes = kernel::region_options{}.packet_bytes;
  std::uint64_t queue_bytes = kernel::region_options{}.queue_bytes;
  bool combine_in_packets = kernel::region_options{}.combine_in_packets;
  std::uint32_t update_windows = kernel::region_options{}.update_windows;
  std::uint32_t unpack_blocks = kernel::region_options{}.unpack_blocks;
  std::uint32_t iterations = 10;  // number of iterations; with a tolerance, the most iterations
  // A run stops once the residual is at most this tolerance. 0 means that the run never stops
  // early. Without transfers the residual is computed, but the run does not stop early.
  double tolerance = 0;
  // The run calls this function from time to time; the function may throw.
  std::function<void()> check_interrupt;
  // Simulated node only: path of the trace file to write; if empty, no trace is written.
  std::string record;
  // Simulated node only: whether every iteration is simulated. If the member is false, and if
  // iterations repeat, only the first iterations are simulated (interlace/run/on_cpu.hpp).
  bool whole = true;
  // Simulated node only. Some workloads choose their blocks by the number of threads that a GPU
  // holds. If this member is true, they choose the blocks for the described machine. If it is
  // false, their blocks are the same on every machine.
  bool cut_like_gpus = false;
  // Simulated node only: the number of threads of the simulation. Results are the same for every
  // number.
  std::uint32_t threads = 1;
  bool share_gpu = false;  // real GPUs only: whether several devices may share a GPU

  std::uint32_t gpus() const { return static_cast<std::uint32_t>(boundaries.size()) - 1; }
};

struct result {
  kernel::run_result run;
  std::uint32_t iterations = 0;
  std::uint32_t timed = 0;      // simulated node only: number of iterations that were simulated
  double warm_iteration_s = 0;  // sampled runs only: mean time of the iterations that repeat
  double residual = 0;          // residual of the last iteration, if a tolerance was given
  std::vector<std::vector<float>> values;  // for each GPU, the values that it holds
};

struct measurement {
  run::result result;  // result of the last repeat; its run.time_s is the median of all repeats
  std::vector<double> times_s;  // the time of each repeat
  // The sums of the NVLink counters over all GPUs and repeats. There is no value if the driver has
  // no such counters.
  std::optional<double> data_tx_bytes;
  std::optional<double> raw_tx_bytes;
  std::vector<std::string> remarks;  // one sentence for each thing that did not go as requested
};

template <class Problem>
result on_host(const Problem& problem, const request& asked);

template <class Problem>
result on_sim(const Problem& problem, const request& asked, const machine::machine& described);

// Runs the workload `warmup` times, and then makes `repeats` measured runs. Afterwards the function
// makes three more runs with additional events, which do not count as measured. These three runs
// give the timeline. If the mechanism copies after the kernels, they also give the fraction of the
// time in which only copies run. copy_s is the median of this fraction, multiplied by the measured
// time.
template <class Problem>
measurement on_cuda(const Problem& problem, const request& asked, std::uint32_t warmup,
                    std::uint32_t repeats);

// Runs this GPU's part of a workload that several processes run together. Every process must have
// called join_nvshmem (run/gpu.hpp). The function ignores the request's mechanism. The result has
// only this GPU's times and replica. Nothing is captured in a graph, and there is no timeline.
template <class Problem>
measurement on_nvshmem(const Problem& problem, const request& asked, std::uint32_t warmup,
                       std::uint32_t repeats);

}  // namespace interlace::run
