#include "trace_sim.hpp"

#include "../cpp/sim/described.hpp"
#include "../probes/traces.hpp"
#include "interlace/sim/node.hpp"
#include "sim/replay.hpp"
#include "sim/trace/statistics.hpp"

namespace interlace::gpu_test {

std::vector<simulated_trace> simulated_forms() {
  sim::node node(test::meshed(1, machine::protocol_kind::nvlink2), 1, [] {});
  std::vector<simulated_trace> all;
  for (const auto& f : probe::trace_forms(node)) all.push_back({f.name, f.seen});
  return all;
}

std::vector<simulated_trace> simulated_workloads() {
  sim::node node(test::meshed(1, machine::protocol_kind::nvlink2), 1, [] {});
  std::vector<simulated_trace> all;
  for (const auto& w : probe::trace_workloads(node)) all.push_back({w.name, w.totals});
  return all;
}

trace_file read_trace(const std::string& path) {
  const sim::trace::reader from(path);
  sim::trace::statistics seen(from.head());
  from.read_all(seen, {});
  trace_file found;
  for (std::size_t kind = 0; kind < sim::trace::access_kinds; ++kind) {
    found.totals.of(static_cast<kernel::traced_access>(kind), kernel::memory_space::local) = {
        seen.touched()[kind][2], seen.all().lanes[kind]};
  }
  found.kernels = seen.all().launches;
  found.blocks = seen.all().blocks;
  found.bytes_to_home = seen.matrix();
  const auto described = test::meshed(from.head().gpus, machine::protocol_kind::nvlink4);
  const auto again = sim::replay(from, described, kernel::mechanism::inline_stores, [] {});
  found.replayed = again.totals.accesses();
  found.remote_payload = again.counters.stored_payload();
  return found;
}

}  // namespace interlace::gpu_test
