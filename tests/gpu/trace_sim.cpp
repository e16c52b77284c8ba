#include "trace_sim.hpp"

#include "../cpp/sim/described.hpp"
#include "../probes/traces.hpp"
#include "sim/node.hpp"

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

}  // namespace interlace::gpu_test
