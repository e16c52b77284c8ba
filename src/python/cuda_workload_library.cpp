#include "python/cuda_workload_library.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <string>
#include <utility>

#include "python/workload_library.hpp"
#include "python/workloads.hpp"
#include "run/variant.hpp"

namespace nb = nanobind;

namespace interlace::python {

namespace {

struct workload_on_gpus : workload_library {
  using workload_library::workload_library;
};

}  // namespace

void bind_workload_library(nb::module_& module) {
  nb::class_<workload_on_gpus>(module, "WorkloadLibrary",
                               "A workload in a library that interlace_add_workload() makes.")
      .def(nb::init<const std::string&>(), nb::arg("path"))
      .def(
          "run",
          [](const workload_on_gpus& library, const std::string& mechanism,
             const boundaries_in& boundaries, std::uint32_t iterations, double tolerance,
             std::uint32_t split_ranges, std::uint64_t chunk_bytes, std::uint32_t agent_threads,
             const std::string& variant, std::uint32_t warmup, std::uint32_t repeats,
             const nb::args& data, bool share_gpu, const run::packing_parameters& packing) {
            const auto problem = library.problem(data);
            run::request asked =
                make_request(mechanism, boundaries, problem->elements(), iterations, tolerance,
                             split_ranges, chunk_bytes, agent_threads, variant);
            run::set_packing(asked, packing);
            asked.share_gpu = share_gpu;
            run::measurement measured;
            {
              const nb::gil_scoped_release release;
              check(problem->measure(asked, warmup, repeats, interrupted, measured));
            }
            return make_measurement(std::move(measured));
          },
          nb::arg("mechanism"), nb::arg("boundaries"), nb::arg("iterations"), nb::arg("tolerance"),
          nb::arg("split_ranges"), nb::arg("chunk_bytes"), nb::arg("agent_threads"),
          nb::arg("variant"), nb::arg("warmup"), nb::arg("repeats"), nb::arg("data"),
          nb::arg("share_gpu") = false, nb::arg("packing") = run::packing_parameters(),
          "Runs the workload; returns the result as a dict.");
}

}  // namespace interlace::python
