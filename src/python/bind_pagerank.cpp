#include "python/bind_pagerank.hpp"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "base/errors.hpp"

namespace nb = nanobind;

namespace interlace::python {

run::pagerank_request make_request(const array_in<std::uint64_t>& offsets,
                                   const array_in<std::uint32_t>& columns,
                                   const array_in<std::uint32_t>& out_degree,
                                   const array_in<std::uint64_t>& boundaries, std::uint32_t gpus,
                                   const std::string& mechanism, double damping,
                                   std::uint32_t iterations, double tolerance,
                                   std::uint32_t split_ranges) {
  const std::size_t vertices = out_degree.shape(0);
  if (offsets.shape(0) != vertices + 1 || offsets.data()[0] != 0 ||
      offsets.data()[vertices] != columns.shape(0) ||
      !std::is_sorted(offsets.data(), offsets.data() + vertices + 1)) {
    throw usage_error("the offsets do not describe rows of the given columns");
  }
  const std::uint32_t* last = columns.data() + columns.shape(0);
  if (std::any_of(columns.data(), last, [&](std::uint32_t c) { return c >= vertices; })) {
    throw usage_error("a column is not one of the graph's " + std::to_string(vertices) +
                      " vertices");
  }
  if (gpus == 0 || gpus > max_devices) {
    throw usage_error(std::to_string(gpus) + " GPUs cannot be used; give 1 to " +
                      std::to_string(max_devices));
  }
  if (boundaries.shape(0) != gpus + std::size_t{1} || boundaries.data()[0] != 0 ||
      boundaries.data()[gpus] != vertices ||
      !std::is_sorted(boundaries.data(), boundaries.data() + gpus + 1)) {
    throw usage_error("the boundaries do not cut the vertices into a part for each GPU");
  }
  run::pagerank_request request;
  request.graph = {vertices, offsets.data(), columns.data(), out_degree.data()};
  request.boundaries.assign(boundaries.data(), boundaries.data() + gpus + 1);
  request.mechanism = kernel::parse_mechanism(mechanism);
  request.split_ranges = split_ranges;
  request.damping = static_cast<float>(damping);
  request.iterations = iterations;
  request.tolerance = tolerance;
  request.check_interrupt = check_signals;
  return request;
}

nb::dict make_result(run::pagerank_result result) {
  nb::dict d;
  d["time_s"] = result.run.time_s;
  d["copy_s"] = result.run.copy_s;
  d["iterations"] = result.iterations;
  d["residual"] = result.residual;
  d["accesses"] = result.run.accesses;
  d["remote_transactions"] = result.run.remote_transactions;
  if (result.run.wire_known) {
    nb::dict wire;
    wire["useful"] = result.run.wire.useful;
    wire["protocol"] = result.run.wire.protocol;
    wire["wasted"] = result.run.wire.wasted;
    d["wire"] = wire;
  } else {
    d["wire"] = nb::none();
  }
  nb::list timeline;
  for (const kernel::timeline_event& e : result.run.timeline) {
    nb::dict event;
    event["device"] = e.device;
    event["track"] = e.track;
    event["name"] = e.name;
    event["start_s"] = e.start_s;
    event["end_s"] = e.end_s;
    timeline.append(event);
  }
  d["timeline"] = timeline;

  const std::size_t devices = result.ranks.size();
  const std::size_t vertices = devices == 0 ? 0 : result.ranks.front().size();
  auto ranks = std::make_unique<std::vector<float>>();
  ranks->reserve(devices * vertices);
  for (const auto& replica : result.ranks) {
    ranks->insert(ranks->end(), replica.begin(), replica.end());
  }
  float* data = ranks->data();
  nb::capsule owner(ranks.release(),
                    [](void* p) noexcept { delete static_cast<std::vector<float>*>(p); });
  d["ranks"] = nb::ndarray<nb::numpy, float, nb::ndim<2>>(data, {devices, vertices}, owner);
  return d;
}

void bind_errors(nb::module_& module) {
  // the constructor registers the exception
  // NOLINTBEGIN(bugprone-throw-keyword-missing,bugprone-unused-raii)
  nb::exception<usage_error>(module, "UsageError");
  nb::exception<model_error>(module, "ModelError", PyExc_RuntimeError);
  nb::exception<device_error>(module, "DeviceError", PyExc_RuntimeError);
  // NOLINTEND(bugprone-throw-keyword-missing,bugprone-unused-raii)
}

void check_signals() {
  const nb::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

}  // namespace interlace::python
