#include "python/cuda_unified.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <string>
#include <utility>

#include "python/unified_programs.hpp"
#include "run/unified_cuda.hpp"

namespace nb = nanobind;

namespace interlace::python {

namespace {

template <class Data>
nb::dict measure(const Data& data, std::uint32_t gpus, const std::string& pages,
                 const std::string& blocks, std::uint32_t warmup, std::uint32_t repeats) {
  const run::unified_request asked = unified_request_of(gpus, pages, blocks);
  run::measured_unified found;
  {
    const nb::gil_scoped_release release;
    found = run::measure_unified(data, asked, warmup, repeats);
  }
  nb::dict d;
  d["time_s"] = found.time_s;
  d["values"] = array_of(std::move(found.values));
  return d;
}

}  // namespace

void bind_unified_on_gpus(nb::module_& module) {
  bind_unified_programs(
      module, []<class Data, class... Array>(nb::module_& to, const char* name, const char* summary,
                                             Data (*make)(Array...), const auto&... arguments) {
        to.def(
            name,
            [make](std::uint32_t gpus, const std::string& pages, const std::string& blocks,
                   std::uint32_t warmup, std::uint32_t repeats, Array... arrays) {
              return measure(make(arrays...), gpus, pages, blocks, warmup, repeats);
            },
            nb::arg("gpus"), nb::arg("pages"), nb::arg("blocks"), nb::arg("warmup"),
            nb::arg("repeats"), arguments..., summary);
      });
}

}  // namespace interlace::python
