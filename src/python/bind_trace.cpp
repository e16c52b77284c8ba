#include "python/bind_trace.hpp"

#include <nanobind/stl/array.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "python/bytes_text.hpp"
#include "python/cpu_time.hpp"
#include "python/signals.hpp"
#include "python/workloads.hpp"
#include "run/trace.hpp"

namespace nb = nanobind;

namespace interlace::python {
namespace {

using result_dict = nb::typed<nb::dict, nb::str, nb::any>;

nb::dict head_dict(const run::trace_head& h) {
  nb::dict d;
  d["gpus"] = h.gpus;
  d["warp_width"] = h.warp_width;
  d["source"] = h.source;
  nb::list ranges;
  for (const run::trace_range& r : h.ranges) {
    ranges.append(nb::make_tuple(r.begin, r.end, r.gpu, r.page_bytes));
  }
  d["ranges"] = ranges;
  return d;
}

result_dict statistics_dict(const run::trace_statistics& s) {
  nb::dict d;
  d["head"] = head_dict(s.head);
  d["file_bytes"] = s.file_bytes;
  nb::list gpus;
  for (const auto& g : s.gpus) {
    nb::dict one;
    one["launches"] = g.launches;
    one["blocks"] = g.blocks;
    one["own"] = g.own;
    one["remote"] = g.remote;
    one["own_bytes"] = g.own_bytes;
    one["remote_bytes"] = g.remote_bytes;
    gpus.append(one);
  }
  d["gpus"] = gpus;
  d["matrix"] = s.matrix;
  d["copies"] = s.copies;
  d["exchanges"] = s.exchanges;
  d["calls"] = s.calls;
  d["host_copies"] = s.host_copies;
  d["copied_bytes"] = s.copied_bytes;
  d["instructions"] = s.instructions;
  d["lanes"] = s.lanes;
  d["bytes"] = s.bytes;
  d["widths"] = s.widths;
  d["distinct_bytes"] = s.distinct_bytes;
  d["touched"] = s.touched;
  d["remote_runs"] = s.remote_runs;
  d["names"] = s.names;
  return d;
}

result_dict statistics_of(const std::string& path, nb::object progress) {
  run::trace_statistics s;
  {
    const nb::gil_scoped_release release;
    s = run::read_statistics(path, [&](std::uint64_t bytes) {
      const nb::gil_scoped_acquire acquire;
      if (!progress.is_none()) progress(bytes);
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
    });
  }
  return statistics_dict(s);
}

using range_tuple = std::tuple<std::uint64_t, std::uint64_t, std::uint32_t, std::uint64_t>;

std::unique_ptr<run::trace_conversion> conversion(
    const std::string& format, const std::string& name, std::uint32_t gpus,
    const std::vector<range_tuple>& ranges, const std::map<std::uint64_t, std::uint32_t>& contexts,
    const std::string& component, const std::string& path) {
  run::trace_source from;
  from.format = format;
  from.name = name;
  from.head.gpus = gpus;
  for (const auto& [begin, end, gpu, page_bytes] : ranges) {
    from.head.ranges.push_back({.begin = begin, .end = end, .gpu = gpu, .page_bytes = page_bytes});
  }
  from.contexts = contexts;
  from.component = component;
  return run::convert_trace(from, path);
}

result_dict replay(const std::string& path, const machine::machine& described,
                   const std::string& mechanism) {
  run::trace_replay r;
  double cpu_s = 0;
  {
    const nb::gil_scoped_release release;
    const double before = cpu_seconds();
    r = run::replay_trace(path, described, mechanism, check_signals);
    cpu_s = cpu_seconds() - before;
  }
  nb::dict d;
  d["time_s"] = r.time_s;
  d["cpu_s"] = cpu_s;
  d["instructions"] = r.instructions;
  d["lanes"] = r.lanes;
  d["accesses"] = r.accesses;
  d["remote_transactions"] = r.remote_transactions;
  d["l1_hits"] = r.l1_hits;
  d["l1_misses"] = r.l1_misses;
  d["stores"] = r.stores;
  d["reads"] = r.reads;
  d["copies"] = r.copies;
  d["exchanges"] = r.exchanges;
  d["host_copies"] = r.host_copies;
  return d;
}

}  // namespace

void bind_trace(nb::module_& module) {
  using run::listed_step;
  nb::class_<listed_step>(module, "TraceStep")
      .def_ro("is_copy", &listed_step::is_copy)
      .def_ro("to_gpu", &listed_step::to_gpu)
      .def_ro("address", &listed_step::address)
      .def_ro("bytes", &listed_step::bytes)
      .def_ro("file", &listed_step::file)
      .def_ro("line", &listed_step::line);
  using run::trace_conversion;
  nb::class_<trace_conversion>(module, "TraceConversion")
      .def("copy", &trace_conversion::copy, nb::arg("step"), nb::arg("list"))
      .def("begin_file", &trace_conversion::begin_file, nb::arg("name"), nb::arg("gpu"))
      .def(
          "feed",
          [](trace_conversion& self, const nb::bytes& text) {
            const std::string_view seen = text_of(text);
            const nb::gil_scoped_release release;
            self.feed(seen);
          },
          nb::arg("text"))
      .def("end_file",
           [](trace_conversion& self) {
             const nb::gil_scoped_release release;
             self.end_file();
           })
      .def("lines", &trace_conversion::lines)
      .def("finish", [](trace_conversion& self) { return statistics_dict(self.finish()); });
  module.def(
      "is_trace_file",
      [](const nb::bytes& beginning) {
        return run::is_trace_file(std::string(text_of(beginning)));
      },
      nb::arg("beginning"));
  module.def("trace_statistics", &statistics_of, nb::arg("path"), nb::arg("progress").none(),
             "Reads and checks a whole trace file. Returns its statistics.");
  module.def(
      "trace_kernels_list",
      [](const nb::bytes& text, const std::string& file) {
        return run::read_kernels_list(text_of(text), file);
      },
      nb::arg("text"), nb::arg("file"), "Returns the steps of the text of a kernelslist.g.");
  module.def("convert_trace", &conversion, nb::arg("format"), nb::arg("name"), nb::arg("gpus"),
             nb::arg("ranges"), nb::arg("contexts"), nb::arg("component"), nb::arg("path"),
             "Converts another tool's trace. If `path` is empty, only returns the statistics.");
  module.def("replay_trace", &replay, nb::arg("path"), nb::arg("machine"), nb::arg("mechanism"),
             "Replays a trace on a simulated machine.");
}

}  // namespace interlace::python
