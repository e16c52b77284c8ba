#include "python/bind_plan.hpp"

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "interlace/base/errors.hpp"
#include "interlace/machine/machine.hpp"
#include "plan/copy_profile.hpp"
#include "plan/copy_settings.hpp"
#include "plan/plan.hpp"

namespace nb = nanobind;

namespace interlace::python {
namespace {

using machine::endpoint;

plan::dealing dealing_named(const std::string& name) {
  if (name == "by-share") return plan::dealing::by_share;
  if (name == "round-robin") return plan::dealing::round_robin;
  throw usage_error("unknown dealing '" + name + "'; give by-share or round-robin");
}

plan::plan planned(const machine::machine& described,
                   const std::vector<std::tuple<endpoint, endpoint, std::uint64_t>>& messages,
                   bool direct, std::optional<std::vector<endpoint>> staging, std::uint32_t chunks,
                   const std::string& dealing, std::uint64_t staging_bytes,
                   const std::vector<std::pair<std::vector<endpoint>, double>>& traffic) {
  std::vector<plan::message> wanted;
  wanted.reserve(messages.size());
  for (const auto& [from, to, bytes] : messages) wanted.push_back({from, to, bytes});
  plan::options asked;
  asked.direct = direct;
  asked.staging = std::move(staging);
  asked.chunks = chunks;
  asked.dealing = dealing_named(dealing);
  asked.staging_bytes = staging_bytes;
  asked.traffic.reserve(traffic.size());
  for (const auto& [stops, bytes_per_s] : traffic) asked.traffic.push_back({stops, bytes_per_s});
  return plan::make_plan(described, wanted, asked);
}

void bind_parts(nb::module_& module) {
  using plan::message;
  nb::class_<message>(module, "PlannedMessage")
      .def_ro("start", &message::from)
      .def_ro("end", &message::to)
      .def_ro("bytes", &message::bytes);

  using plan::path;
  nb::class_<path>(module, "PlannedPath")
      .def_ro("message", &path::message)
      .def_ro("stops", &path::stops)
      .def_ro("bytes", &path::bytes)
      .def_ro("chunks", &path::chunks)
      .def_ro("reason", &path::reason);

  nb::enum_<plan::memory>(module, "PlannedMemory")
      .value("source", plan::memory::source)
      .value("destination", plan::memory::destination)
      .value("staging", plan::memory::staging);

  using plan::location;
  nb::class_<location>(module, "PlannedLocation")
      .def_ro("memory", &location::memory)
      .def_ro("index", &location::index)
      .def_ro("offset", &location::offset);

  using plan::staging_buffer;
  nb::class_<staging_buffer>(module, "PlannedBuffer")
      .def_ro("place", &staging_buffer::place)
      .def_ro("bytes", &staging_buffer::bytes)
      .def_ro("path", &staging_buffer::path);

  using plan::slot;
  nb::class_<slot>(module, "PlannedSlot").def_ro("gpu", &slot::gpu);

  using plan::step;
  nb::class_<step>(module, "PlannedStep")
      .def_ro("path", &step::path)
      .def_ro("leg", &step::leg)
      .def_ro("chunk", &step::chunk)
      .def_ro("source", &step::from)
      .def_ro("target", &step::to)
      .def_ro("bytes", &step::bytes)
      .def_ro("slot", &step::slot)
      .def_ro("after", &step::after)
      .def_ro("begin_s", &step::begin_s)
      .def_ro("end_s", &step::end_s);
}

}  // namespace

void bind_plan(nb::module_& module) {
  bind_parts(module);
  using plan::plan;
  nb::class_<plan>(module, "Plan")
      .def_ro("messages", &plan::messages)
      .def_ro("rounds", &plan::rounds)
      .def_ro("apart", &plan::apart)
      .def_ro("paths", &plan::paths)
      .def_ro("buffers", &plan::buffers)
      .def_ro("slots", &plan::slots)
      .def_ro("steps", &plan::steps)
      .def_ro("predicted_s", &plan::predicted_s)
      .def_ro("direct_s", &plan::direct_s)
      .def(
          "path_name",
          [](const plan& made, const machine::machine& described, std::size_t index) {
            return interlace::plan::name(described, made.paths.at(index));
          },
          nb::arg("machine"), nb::arg("index"), "Returns `direct`, or the staging places.");

  module.def(
      "make_plan", &planned, nb::arg("machine"), nb::arg("messages"), nb::arg("direct") = true,
      nb::arg("staging").none() = nb::none(), nb::arg("chunks") = 0,
      nb::arg("dealing") = "by-share",
      nb::arg("staging_bytes") = interlace::plan::options{}.staging_bytes,
      nb::arg("traffic") = std::vector<std::pair<std::vector<endpoint>, double>>{},
      nb::call_guard<nb::gil_scoped_release>(),
      "Makes the fastest plan for messages (start, end, bytes). `staging` lists the places that "
      "paths may use; None means all places. `chunks` is the number of chunks of a staged part; 0 "
      "means the fastest number. `traffic` lists other messages in flight as (stops, bytes per "
      "second); 0 bytes per second mean as many as the links allow.");

  module.def(
      "copy_settings",
      [] {
        std::vector<std::tuple<std::string, std::string, std::string>> all;
        for (const auto& one : interlace::plan::copy_settings())
          all.emplace_back(one.variable, one.standard, one.meaning);
        return all;
      },
      "Returns the environment variables of copies as (name, default, meaning).");
  module.def(
      "check_copy_settings",
      [](const std::map<std::string, std::string>& values) {
        (void)interlace::plan::read_copy_options(
            [&](const std::string& name) -> std::optional<std::string> {
              const auto found = values.find(name);
              if (found == values.end()) return std::nullopt;
              return found->second;
            });
      },
      nb::arg("values"), "Raises UserError for an invalid value. The message names the variable.");
  module.def(
      "copy_choice",
      [](const std::string& text, const std::string& name, const std::string& direction,
         std::uint64_t bytes) {
        const auto profile = interlace::plan::read_copy_profile(text, name);
        const auto choice = profile.of(interlace::plan::copy_direction_named(direction), bytes);
        return std::make_tuple(interlace::plan::paths_name(choice), choice.chunks,
                               std::string(choice.executor == copy_executor::graphs    ? "graphs"
                                           : choice.executor == copy_executor::streams ? "streams"
                                                                                       : "auto"));
      },
      nb::arg("text"), nb::arg("name"), nb::arg("direction"), nb::arg("bytes"),
      "Returns what a copy profile says about messages of this direction and size: the paths, the "
      "chunks of a staged part, and the executor. `name` is the name of the file in errors.");
}

}  // namespace interlace::python
