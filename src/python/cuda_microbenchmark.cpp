#include "python/cuda_microbenchmark.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "bench/microbenchmark_cuda.hpp"

namespace nb = nanobind;

namespace interlace::python {

namespace {

// A pair: the seconds of an epoch in each repeat, and the payload of an epoch.
using timed = std::pair<std::vector<double>, std::uint64_t>;

timed of(bench::kernel_times t) { return {std::move(t.time_s), t.payload}; }

timed measure_stores(std::uint32_t gpus, std::uint32_t senders, std::uint32_t element_bytes,
                     std::uint64_t elements, std::uint32_t together, std::uint32_t lanes,
                     std::uint32_t shift, std::uint32_t epochs, std::uint32_t repeats) {
  const nb::gil_scoped_release release;
  return of(bench::stores_on_cuda(gpus, element_bytes,
                                  {.senders = senders,
                                   .elements = elements,
                                   .together = together,
                                   .lanes = lanes,
                                   .shift = shift},
                                  {epochs, repeats}));
}

timed measure_copy_kernel(std::uint64_t bytes, std::uint32_t blocks, std::uint32_t epochs,
                          std::uint32_t repeats) {
  const nb::gil_scoped_release release;
  return of(bench::copy_kernel_on_cuda(bytes, blocks, {epochs, repeats}));
}

timed measure_loads(std::uint32_t element_bytes, std::uint64_t elements, std::uint32_t epochs,
                    std::uint32_t repeats) {
  const nb::gil_scoped_release release;
  return of(bench::loads_on_cuda(element_bytes, elements, {epochs, repeats}));
}

std::optional<std::vector<double>> measure_store_wire(std::uint32_t element_bytes,
                                                      std::uint64_t elements,
                                                      std::uint32_t together, std::uint32_t lanes,
                                                      std::uint32_t shift, std::uint32_t epochs,
                                                      std::uint32_t repeats) {
  const nb::gil_scoped_release release;
  return bench::store_wire_on_cuda(
      element_bytes,
      {.senders = 1, .elements = elements, .together = together, .lanes = lanes, .shift = shift},
      {epochs, repeats});
}

// Measures copies. Each copy is a tuple (from, to, bytes, stream).
std::vector<double> measure_streams(
    const std::vector<std::tuple<int, int, std::uint64_t, std::uint32_t>>& copies, bool by_host,
    std::uint32_t repeats) {
  const nb::gil_scoped_release release;
  std::vector<bench::stream_copy> asked;
  asked.reserve(copies.size());
  for (const auto& [from, to, bytes, stream] : copies) asked.push_back({from, to, bytes, stream});
  return bench::copies_on_cuda(asked, by_host, repeats);
}

}  // namespace

void bind_microbenchmarks(nb::module_& module) {
  module.def("measure_stores", &measure_stores, nb::arg("gpus"), nb::arg("senders"),
             nb::arg("element_bytes"), nb::arg("elements"), nb::arg("together"), nb::arg("lanes"),
             nb::arg("shift"), nb::arg("epochs"), nb::arg("repeats"),
             "Like simulate_stores of _core, but on GPUs. Returns the seconds of an epoch in each "
             "repeat, and the payload.");
  module.def("measure_copy_kernel", &measure_copy_kernel, nb::arg("bytes"), nb::arg("blocks"),
             nb::arg("epochs"), nb::arg("repeats"),
             "Like simulate_copy_kernel of _core, but on GPUs. Returns the seconds of an epoch in "
             "each repeat, and the payload.");
  module.def("measure_loads", &measure_loads, nb::arg("element_bytes"), nb::arg("elements"),
             nb::arg("epochs"), nb::arg("repeats"),
             "Like simulate_loads of _core, but on GPUs. Returns the seconds of an epoch in each "
             "repeat, and the payload.");
  module.def("measure_store_wire", &measure_store_wire, nb::arg("element_bytes"),
             nb::arg("elements"), nb::arg("together"), nb::arg("lanes"), nb::arg("shift"),
             nb::arg("epochs"), nb::arg("repeats"),
             "Returns the bytes on the wire for each byte that is stored, in each repeat, or None "
             "without NVLink counters.");
  module.def(
      "measure_streams", &measure_streams, nb::arg("copies"), nb::arg("by_host"),
      nb::arg("repeats"),
      "Returns the seconds of copies (from, to, bytes, stream) in each repeat. -1 is the host.");
}

}  // namespace interlace::python
