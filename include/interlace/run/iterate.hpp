// The loop over the iterations of a workload, for all workloads and nodes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>

#include "interlace/run/workload.hpp"

namespace interlace::run {

// With a tolerance, the loop checks the residual each time it has run this many iterations.
inline constexpr std::uint32_t iterations_per_look = 5;
// The most iterations that one run enqueues. With this limit, a long run takes no more memory than
// a short run.
inline constexpr std::uint32_t iterations_per_run = 256;

inline kernel::region_options region_of(const request& asked) {
  kernel::region_options options;
  options.boundaries = asked.boundaries;
  options.mechanism = asked.mechanism;
  options.split_ranges = asked.split_ranges;
  options.chunk_bytes = asked.chunk_bytes;
  options.agent_threads = asked.agent_threads;
  options.agent_copy = asked.agent_copy;
  options.collective = asked.collective;
  options.hint = asked.hint;
  options.transfers = asked.transfers;
  options.packet_bytes = asked.packet_bytes;
  options.queue_bytes = asked.queue_bytes;
  options.combine_in_packets = asked.combine_in_packets;
  options.update_windows = asked.update_windows;
  options.unpack_blocks = asked.unpack_blocks;
  return options;
}

inline void add(kernel::run_result& sum, kernel::run_result part) {
  const bool first = sum.timeline.empty();
  sum.time_s += part.time_s;
  sum.copy_s += part.copy_s;
  // A node's counts cover the node's whole life. The counts of the last part therefore include the
  // counts of all earlier parts.
  sum.wire_known = part.wire_known;
  sum.wire = part.wire;
  sum.accesses = part.accesses;
  sum.remote_transactions = part.remote_transactions;
  sum.stores = part.stores;
  sum.observed = std::move(part.observed);
  sum.work.insert(sum.work.end(), std::make_move_iterator(part.work.begin()),
                  std::make_move_iterator(part.work.end()));
  sum.sent_bytes.insert(sum.sent_bytes.end(), part.sent_bytes.begin(), part.sent_bytes.end());
  sum.epoch_s.insert(sum.epoch_s.end(), part.epoch_s.begin(), part.epoch_s.end());
  if (first) sum.timeline = std::move(part.timeline);
}

// Runs all iterations, starting from the state of `work`. The result does not include the values.
// The function passes `how` on to node.run.
template <class Node, class Work, class... How>
result iterate(Node& node, Work& work, const request& asked, const How&... how) {
  const bool until = asked.tolerance > 0;
  result total;
  while (total.iterations < asked.iterations) {
    const std::uint32_t count = std::min(until ? iterations_per_look : iterations_per_run,
                                         asked.iterations - total.iterations);
    const auto enqueue = [&] {
      for (std::uint32_t i = 0; i < count; ++i) work.enqueue_iteration(until && i + 1 == count);
    };
    add(total.run, node.run(enqueue, how...));
    total.iterations += count;
    if (asked.check_interrupt) asked.check_interrupt();
    if (!until) continue;
    total.residual = work.residual();
    // Without transfers the residual would be computed from stale replicas.
    if (asked.transfers && total.residual <= asked.tolerance) break;
  }
  return total;
}

template <class Node, class Work>
void keep_values(const Node& node, const Work& work, result& of) {
  of.values.clear();
  for (std::uint32_t d = 0; d < node.devices(); ++d) of.values.push_back(work.result(d));
}

}  // namespace interlace::run
