// Functions of the module _cuda that run workloads on the GPUs of this computer.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <string>
#include <utility>

#include "interlace/kernel/mechanism.hpp"
#include "interlace/run/workload.hpp"
#include "python/problem_arguments.hpp"
#include "python/unified_result.hpp"
#include "python/workloads.hpp"
#include "run/unified.hpp"
#include "run/variant.hpp"

namespace interlace::python {

template <class Problem, class... Parameter, std::size_t... K>
void bind_workload(nanobind::module_& module, const char* name, Problem (*)(Parameter...),
                   std::index_sequence<K...> /*places*/) {
  static_assert(sizeof...(Parameter) == sizeof...(K), "each parameter of `make` has a name");
  using nanobind::arg;
  module.def(
      name,
      [](const std::string& mechanism, const boundaries_in& boundaries, std::uint32_t iterations,
         double tolerance, std::uint32_t split_ranges, std::uint64_t chunk_bytes,
         std::uint32_t agent_threads, const std::string& variant, std::uint32_t warmup,
         std::uint32_t repeats, argument_type<Parameter>... data, bool share_gpu,
         const run::packing_parameters& packing) {
        const auto problem = problem_of<Problem, Parameter...>(data...);
        run::request asked =
            make_request(mechanism, boundaries, problem.elements(), iterations, tolerance,
                         split_ranges, chunk_bytes, agent_threads, variant);
        run::set_packing(asked, packing);
        // If this is true, this process is one of several processes that the mechanism needs. The
        // regions of a node do not have such a mechanism, so they take bulk_copy here.
        const bool of_processes = kernel::row_of(asked.mechanism).needs_processes;
        if (of_processes) asked.mechanism = kernel::mechanism::bulk_copy;
        asked.share_gpu = share_gpu;
        run::measurement measured;
        {
          const nanobind::gil_scoped_release release;
          measured = of_processes ? run::on_nvshmem(problem, asked, warmup, repeats)
                                  : run::on_cuda(problem, asked, warmup, repeats);
        }
        return make_measurement(std::move(measured));
      },
      arg("mechanism"), arg("boundaries"), arg("iterations"), arg("tolerance"), arg("split_ranges"),
      arg("chunk_bytes"), arg("agent_threads"), arg("variant"), arg("warmup"), arg("repeats"),
      arg(Problem::arguments[K])..., arg("share_gpu") = false,
      arg("packing") = run::packing_parameters(), documentation<Problem>().c_str());
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
      [](std::uint32_t gpus, const std::string& pages, const std::string& blocks,
         std::uint32_t warmup, std::uint32_t repeats, argument_type<Parameter>... data) {
        const auto problem = problem_of<Problem, Parameter...>(data...);
        const run::unified_request asked = unified_request_of(gpus, pages, blocks);
        run::measured_unified found;
        {
          const nanobind::gil_scoped_release release;
          found = run::unified_on_cuda(problem, asked, warmup, repeats);
        }
        nanobind::dict d;
        d["time_s"] = found.time_s;
        d["values"] = array_of(std::move(found.values));
        return d;
      },
      arg("gpus"), arg("pages"), arg("blocks"), arg("warmup"), arg("repeats"),
      arg(Problem::arguments[K])..., documentation<Problem>(" on unified GPUs").c_str());
}
template <class Problem>
void bind_unified_program(nanobind::module_& module, const char* name) {
  bind_unified_program(module, name, &Problem::make, argument_places<Problem>{});
}

}  // namespace interlace::python
