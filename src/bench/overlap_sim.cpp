#include "bench/overlap_sim.hpp"

#include <algorithm>
#include <string>

#include "interlace/base/errors.hpp"
#include "interlace/sim/node.hpp"
#include "machine/route.hpp"
#include "sim/fabric/store_packets.hpp"
#include "workload/benchmark/overlap.hpp"

namespace interlace::bench {

double overlap_on_sim(const simulated_overlap& request, const machine::machine& described) {
  const std::uint64_t elements = request.bytes / sizeof(workload::quad);
  if (elements == 0 || request.peers == 0) {
    throw usage_error("the overlap benchmark needs bytes and peers");
  }
  sim::node node(described, request.peers + 1, request.check_interrupt);
  workload::overlap<sim::node> work(node, elements, request.how);
  constexpr std::uint32_t seed = 1;
  const double time = node.run([&] { work.enqueue_epoch(0, seed, request.rounds); }).time_s;
  for (std::uint32_t d = 0; d < node.devices(); ++d) {
    const auto found = work.view(d);
    for (std::uint64_t i = 0; i < elements; ++i) {
      if (found.front[i] == workload::overlap_producer::value(i, 0, seed)) continue;
      throw model_error("gpu" + std::to_string(d) + " does not have element " + std::to_string(i) +
                        " of the computed result");
    }
  }
  return time;
}

double store_goodput(const machine::machine& described, std::uint32_t bytes) {
  using machine::endpoint_kind;
  const std::uint32_t line = described.gpu.l1.line_bytes;
  const auto way = machine::route(described, {endpoint_kind::gpu, 0}, {endpoint_kind::gpu, 1});
  if (bytes == 0 || bytes > line) {
    throw usage_error("a store cannot have " + std::to_string(bytes) + " bytes; give 1 to " +
                      std::to_string(line));
  }
  if (!way) throw usage_error("no link leads from gpu0 to gpu1 on machine " + described.name);
  sim::byte_mask mask;
  for (std::uint32_t at = 0; at < bytes; at += 64) mask.set(at, std::min(64U, bytes - at));
  const auto cost = sim::store_packets(described.links[way->front().link].protocol, mask);
  return static_cast<double>(cost.payload) / cost.wire;
}

}  // namespace interlace::bench
