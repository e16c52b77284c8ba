// interlace._core: machines, and the workloads on the host and the simulated node.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <sys/resource.h>

#include "base/errors.hpp"
#include "python/bind_machine.hpp"
#include "python/bind_pagerank.hpp"
#include "run/pagerank.hpp"

namespace nb = nanobind;

namespace interlace::python {

namespace {

double thread_cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// as the type stub shows it
using result_dict = nb::typed<nb::dict, nb::str, nb::any>;

result_dict run_pagerank(const std::string& node, const machine::machine* described,
                         std::uint32_t gpus, const std::string& mechanism,
                         const array_in<std::uint64_t>& offsets,
                         const array_in<std::uint32_t>& columns,
                         const array_in<std::uint32_t>& out_degree,
                         const array_in<std::uint64_t>& boundaries, double damping,
                         std::uint32_t iterations, double tolerance, std::uint32_t split_ranges) {
  const auto request = make_request(offsets, columns, out_degree, boundaries, gpus, mechanism,
                                    damping, iterations, tolerance, split_ranges);
  run::pagerank_result result;
  double cpu_s = 0;
  {
    const nb::gil_scoped_release release;
    const double before = thread_cpu_seconds();
    if (node == "host") {
      result = run::pagerank_on_host(request);
    } else if (node != "sim") {
      throw usage_error("unknown node '" + node + "'; there are host and sim");
    } else if (described == nullptr) {
      throw usage_error("a simulated run needs a machine");
    } else {
      result = run::pagerank_on_sim(request, *described);
    }
    cpu_s = thread_cpu_seconds() - before;
  }
  nb::dict d = make_result(std::move(result));
  d["cpu_s"] = cpu_s;
  return d;
}

}  // namespace

}  // namespace interlace::python

NB_MODULE(_core, module) {
  module.doc() = "Machines, and workloads on the host and the simulated node.";
  interlace::python::bind_errors(module);
  interlace::python::bind_machine(module);
  module.def("run_pagerank", &interlace::python::run_pagerank, nb::arg("node"),
             nb::arg("machine").none(), nb::arg("gpus"), nb::arg("mechanism"), nb::arg("offsets"),
             nb::arg("columns"), nb::arg("out_degree"), nb::arg("boundaries"), nb::arg("damping"),
             nb::arg("iterations"), nb::arg("tolerance"), nb::arg("split_ranges"),
             "Run PageRank on the node 'host' or 'sim'; the result as a dict.");
}
