// Measured runs of workloads on the GPUs of this computer.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "interlace/base/errors.hpp"
#include "interlace/base/statistics.hpp"
#include "interlace/cuda/fft.hpp"  // for problems that plan transforms
#include "interlace/cuda/node.hpp"
#include "interlace/cuda/nvlink_counters.hpp"
#include "interlace/cuda/rank_node.hpp"
#include "interlace/run/iterate.hpp"
#include "interlace/run/launching.hpp"

namespace interlace::run {

// The sum of the counters of all GPUs. There is no value if a GPU has no counters.
std::optional<cuda::nvlink_bytes> total_counters(const cuda::node& node);
// The GPU of each device. Devices are assigned to the GPUs in turn, so several devices can share a
// GPU.
std::vector<int> shared_ordinals(std::uint32_t devices);
// Throws usage_error if join_nvshmem has not been called.
const cuda::nvshmem_rank& nvshmem_of_process();

template <class Problem>
measurement on_cuda(const Problem& problem, const request& asked, std::uint32_t warmup,
                    std::uint32_t repeats) {
  if (repeats == 0) throw usage_error("a measured run needs at least one repeat");
  if (asked.mechanism == kernel::mechanism::device_launch) add_launching_kernels_of<Problem>();
  cuda::node_options options;
  options.devices = asked.gpus();
  if (asked.share_gpu) options.ordinals = shared_ordinals(asked.gpus());
  cuda::node node(options);
  auto work = problem.on(node, region_of(asked));

  // Runs the workload once from its start state. The values of the run stay in place afterwards.
  const auto run_once = [&](const cuda::run_options& how) {
    work.reset();
    return iterate(node, work, asked, how);
  };

  for (std::uint32_t i = 0; i < warmup; ++i) run_once({});
  measurement measured;
  const auto before = total_counters(node);
  for (std::uint32_t i = 0; i < repeats; ++i) {
    measured.result = run_once({});
    measured.times_s.push_back(measured.result.run.time_s);
  }
  const auto after = total_counters(node);
  if (before && after) {
    measured.data_tx_bytes = static_cast<double>((*after - *before).data_sent);
    measured.raw_tx_bytes = static_cast<double>((*after - *before).raw_sent);
  }
  result& last = measured.result;
  last.run.time_s = median(measured.times_s);
  keep_values(node, work, last);

  cuda::run_options watch;
  watch.detail = true;
  std::vector<double> parts;
  for (int i = 0; i < 3; ++i) {
    result detail = run_once(watch);
    parts.push_back(detail.run.copy_s / detail.run.time_s);
    last.run.timeline = std::move(detail.run.timeline);
    // Keeps the shortest time of each epoch, because recording an event occasionally takes time
    // itself.
    std::vector<double>& least = last.run.epoch_s;
    if (least.size() == detail.run.epoch_s.size()) {
      std::transform(least.begin(), least.end(), detail.run.epoch_s.begin(), least.begin(),
                     [](double a, double b) { return std::min(a, b); });
    } else {
      least = std::move(detail.run.epoch_s);
    }
  }
  if (kernel::copies_behind_kernels(asked.mechanism)) {
    last.run.copy_s = median(parts) * last.run.time_s;
  }
  for (const std::string& remark : node.remarks()) {
    if (std::find(measured.remarks.begin(), measured.remarks.end(), remark) ==
        measured.remarks.end()) {
      measured.remarks.push_back(remark);
    }
  }
  if (std::string made = node.batches_made(); !made.empty()) {
    measured.remarks.push_back(std::move(made));
  }
  return measured;
}

template <class Problem>
measurement on_nvshmem(const Problem& problem, const request& asked, std::uint32_t warmup,
                       std::uint32_t repeats) {
  if (repeats == 0) throw usage_error("a measured run needs at least one repeat");
  cuda::rank_node node(nvshmem_of_process(), static_cast<int>(nvshmem_of_process().rank()));
  if (asked.gpus() != node.devices()) {
    throw usage_error("a run on " + std::to_string(asked.gpus()) +
                      " GPUs needs as many processes, not " + std::to_string(node.devices()));
  }
  auto work = problem.on(node, region_of(asked));
  const auto run_once = [&] {
    work.reset();
    return iterate(node, work, asked);
  };
  for (std::uint32_t i = 0; i < warmup; ++i) run_once();
  measurement measured;
  const auto before = cuda::read_nvlink_counters(node.ordinal(node.rank()));
  for (std::uint32_t i = 0; i < repeats; ++i) {
    measured.result = run_once();
    measured.times_s.push_back(measured.result.run.time_s);
  }
  const auto after = cuda::read_nvlink_counters(node.ordinal(node.rank()));
  if (before && after) {
    measured.data_tx_bytes = static_cast<double>((*after - *before).data_sent);
    measured.raw_tx_bytes = static_cast<double>((*after - *before).raw_sent);
  }
  measured.result.run.time_s = median(measured.times_s);
  measured.result.values = {work.result(node.rank())};
  return measured;
}

}  // namespace interlace::run

#define INTERLACE_RUN_ON_GPUS(problem)                                               \
  template interlace::run::measurement interlace::run::on_cuda(                      \
      const problem&, const interlace::run::request&, std::uint32_t, std::uint32_t); \
  template interlace::run::measurement interlace::run::on_nvshmem(                   \
      const problem&, const interlace::run::request&, std::uint32_t, std::uint32_t)
