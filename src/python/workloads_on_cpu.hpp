// Functions of the module _core that run workloads on the host node and the simulated node.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <string>
#include <utility>

#include "interlace/base/errors.hpp"
#include "interlace/run/workload.hpp"
#include "python/cpu_time.hpp"
#include "python/problem_arguments.hpp"
#include "python/signals.hpp"
#include "python/unified_result.hpp"
#include "python/workloads.hpp"
#include "run/unified.hpp"
#include "run/variant.hpp"

namespace interlace::python {

// The type of the result dictionary in the type stub.
using result_dict = nanobind::typed<nanobind::dict, nanobind::str, nanobind::any>;

// Calls `host()` or `sim(machine)`, depending on the name of the node. Returns the result of the
// call and its processor time.
template <class Host, class Sim>
auto run_on(const std::string& node, const machine::machine* described, const Host& host,
            const Sim& sim) {
  const nanobind::gil_scoped_release release;
  std::pair<decltype(host()), double> found;
  const double before = cpu_seconds();
  if (node == "host") {
    found.first = host();
  } else if (node != "sim") {
    throw usage_error("unknown node '" + node + "'; give host or sim");
  } else if (described == nullptr) {
    throw usage_error("a simulated run needs a machine");
  } else {
    found.first = sim(*described);
  }
  found.second = cpu_seconds() - before;
  return found;
}

template <class Problem, class... Parameter, std::size_t... K>
void bind_workload(nanobind::module_& module, const char* name, Problem (*)(Parameter...),
                   std::index_sequence<K...> /*places*/) {
  static_assert(sizeof...(Parameter) == sizeof...(K), "each parameter of `make` has a name");
  using nanobind::arg;
  module.def(
      name,
      [](const std::string& node, const machine::machine* described, const std::string& mechanism,
         const boundaries_in& boundaries, std::uint32_t iterations, double tolerance,
         std::uint32_t split_ranges, std::uint64_t chunk_bytes, std::uint32_t agent_threads,
         const std::string& variant, argument_type<Parameter>... data, const std::string& record,
         bool whole, bool cut_like_gpus, std::uint32_t threads,
         const run::packing_parameters& packing) {
        const auto problem = problem_of<Problem, Parameter...>(data...);
        run::request asked =
            make_request(mechanism, boundaries, problem.elements(), iterations, tolerance,
                         split_ranges, chunk_bytes, agent_threads, variant);
        run::set_packing(asked, packing);
        asked.record = record;
        asked.whole = whole;
        asked.cut_like_gpus = cut_like_gpus;
        asked.threads = threads;
        auto [result, cpu_s] = run_on(
            node, described, [&] { return run::on_host(problem, asked); },
            [&](const machine::machine& machine) { return run::on_sim(problem, asked, machine); });
        nanobind::dict d = make_result(std::move(result));
        d["cpu_s"] = cpu_s;
        return result_dict(std::move(d));
      },
      arg("node"), arg("machine").none(), arg("mechanism"), arg("boundaries"), arg("iterations"),
      arg("tolerance"), arg("split_ranges"), arg("chunk_bytes"), arg("agent_threads"),
      arg("variant"), arg(Problem::arguments[K])..., arg("record") = "", arg("whole") = true,
      arg("cut_like_gpus") = false, arg("threads") = 1, arg("packing") = run::packing_parameters(),
      documentation<Problem>().c_str());
}
template <class Problem>
void bind_workload(nanobind::module_& module, const char* name) {
  bind_workload(module, name, &Problem::make, argument_places<Problem>{});
}

template <class Problem, class... Parameter, std::size_t... K>
void bind_unified_program(nanobind::module_& module, const char* name, Problem (*)(Parameter...),
                          std::index_sequence<K...> /*places*/) {
  static_assert(sizeof...(Parameter) == sizeof...(K), "each parameter of `make` has a name");
  using nanobind::arg;
  module.def(
      name,
      [](const std::string& node, const machine::machine* described, std::uint32_t gpus,
         const std::string& pages, const std::string& blocks, const std::string& mechanism,
         argument_type<Parameter>... data) {
        const auto problem = problem_of<Problem, Parameter...>(data...);
        run::unified_request asked = unified_request_of(gpus, pages, blocks);
        asked.loads = kernel::parse_remote_loads(mechanism);
        asked.check_interrupt = check_signals;
        auto [result, cpu_s] = run_on(
            node, described, [&] { return run::unified_on_host(problem, asked); },
            [&](const machine::machine& machine) {
              return run::unified_on_sim(problem, asked, machine);
            });
        return result_dict(unified_result(std::move(result), cpu_s));
      },
      arg("node"), arg("machine").none(), arg("gpus"), arg("pages"), arg("blocks"),
      arg("mechanism"), arg(Problem::arguments[K])...,
      documentation<Problem>(" on unified GPUs").c_str());
}
template <class Problem>
void bind_unified_program(nanobind::module_& module, const char* name) {
  bind_unified_program(module, name, &Problem::make, argument_places<Problem>{});
}

}  // namespace interlace::python
