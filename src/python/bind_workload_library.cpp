#include "python/bind_workload_library.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <string>
#include <utility>

#include "python/workload_library.hpp"
#include "python/workloads.hpp"
#include "python/workloads_on_cpu.hpp"
#include "run/variant.hpp"

namespace nb = nanobind;

namespace interlace::python {

namespace {

struct workload_on_cpu : workload_library {
  using workload_library::workload_library;
};

}  // namespace

void bind_workload_library(nb::module_& module) {
  nb::class_<workload_on_cpu>(module, "WorkloadLibrary",
                              "A workload in a library that `interlace build-workload` makes.")
      .def(nb::init<const std::string&>(), nb::arg("path"))
      .def(
          "run",
          [](const workload_on_cpu& library, const std::string& node,
             const machine::machine* described, const std::string& mechanism,
             const boundaries_in& boundaries, std::uint32_t iterations, double tolerance,
             std::uint32_t split_ranges, std::uint64_t chunk_bytes, std::uint32_t agent_threads,
             const std::string& variant, const nb::args& data, const std::string& record,
             bool whole, bool cut_like_gpus, std::uint32_t threads,
             const run::packing_parameters& packing) {
            const auto problem = library.problem(data);
            run::request asked =
                make_request(mechanism, boundaries, problem->elements(), iterations, tolerance,
                             split_ranges, chunk_bytes, agent_threads, variant);
            run::set_packing(asked, packing);
            asked.record = record;
            asked.whole = whole;
            asked.cut_like_gpus = cut_like_gpus;
            asked.threads = threads;
            const auto on = [&](const machine::machine* machine) {
              run::result found;
              check(problem->run(asked, machine, interrupted, found));
              return found;
            };
            auto [result, cpu_s] = run_on(
                node, described, [&] { return on(nullptr); },
                [&](const machine::machine& machine) { return on(&machine); });
            nb::dict d = make_result(std::move(result));
            d["cpu_s"] = cpu_s;
            return result_dict(std::move(d));
          },
          nb::arg("node"), nb::arg("machine").none(), nb::arg("mechanism"), nb::arg("boundaries"),
          nb::arg("iterations"), nb::arg("tolerance"), nb::arg("split_ranges"),
          nb::arg("chunk_bytes"), nb::arg("agent_threads"), nb::arg("variant"), nb::arg("data"),
          nb::arg("record") = "", nb::arg("whole") = true, nb::arg("cut_like_gpus") = false,
          nb::arg("threads") = 1, nb::arg("packing") = run::packing_parameters(),
          "Runs the workload; returns the result as a dict.",
          // The signature is given as text, because a generated signature would not have the type
          // of `data`.
          nb::sig("def run(self, node: str, machine: Machine | None, mechanism: str, "
                  "boundaries: object, iterations: int, tolerance: float, split_ranges: int, "
                  "chunk_bytes: int, agent_threads: int, variant: str, *data: object, "
                  "record: str = '', whole: bool = True, cut_like_gpus: bool = False, threads: int "
                  "= 1, packing: dict[str, int] = {}) "
                  "-> dict[str, object]"));
}

}  // namespace interlace::python
