#include <algorithm>

#include "base/errors.hpp"
#include "cuda/node.hpp"
#include "cuda/nvlink_counters.hpp"
#include "run/pagerank_cuda.hpp"

namespace interlace::run {

namespace {

// All GPUs' counters; nothing if one of them has none.
std::optional<cuda::nvlink_bytes> total_counters(const cuda::node& node) {
  cuda::nvlink_bytes sum;
  for (std::uint32_t d = 0; d < node.devices(); ++d) {
    const auto one = cuda::read_nvlink_counters(node.ordinal(d));
    if (!one) return std::nullopt;
    sum.data_sent += one->data_sent;
    sum.raw_sent += one->raw_sent;
  }
  return sum;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

}  // namespace

pagerank_measurement pagerank_on_cuda(const pagerank_request& request, std::uint32_t warmup,
                                      std::uint32_t repeats) {
  if (repeats == 0) throw usage_error("a measured run needs at least one repeat");
  cuda::node_options options;
  options.devices = request.gpus();
  cuda::node node(options);
  workload::pagerank<cuda::node> work(node, request.graph, region_of(request), request.damping);
  const bool until = request.tolerance > 0;

  // One run from the start; leaves the ranks in place.
  const auto run_once = [&](const cuda::run_options& how) {
    work.reset();
    pagerank_result result;
    while (result.iterations < request.iterations) {
      const std::uint32_t count = next_iterations(request, result.iterations);
      add(result.run, node.run(
                          [&] {
                            for (std::uint32_t i = 0; i < count; ++i) {
                              work.enqueue_iteration(until && i + 1 == count);
                            }
                          },
                          how));
      result.iterations += count;
      if (request.check_interrupt) request.check_interrupt();
      if (!until) continue;
      result.residual = work.residual();
      if (result.residual <= request.tolerance) break;
    }
    return result;
  };

  for (std::uint32_t i = 0; i < warmup; ++i) run_once({});
  pagerank_measurement measured;
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
  pagerank_result& result = measured.result;
  result.run.time_s = median(measured.times_s);
  for (std::uint32_t d = 0; d < node.devices(); ++d) result.ranks.push_back(work.ranks(d));

  cuda::run_options watch;
  watch.detail = true;
  std::vector<double> parts;
  for (int i = 0; i < 3; ++i) {
    pagerank_result detail = run_once(watch);
    parts.push_back(detail.run.copy_s / detail.run.time_s);
    result.run.timeline = std::move(detail.run.timeline);
  }
  if (request.mechanism == kernel::mechanism::bulk_copy) {
    result.run.copy_s = median(parts) * result.run.time_s;
  }
  for (const std::string& remark : node.remarks()) {
    if (std::find(measured.remarks.begin(), measured.remarks.end(), remark) ==
        measured.remarks.end()) {
      measured.remarks.push_back(remark);
    }
  }
  return measured;
}

}  // namespace interlace::run
