#include "python/bind_machine.hpp"

#include <nanobind/operators.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "interlace/machine/machine.hpp"
#include "machine/discover.hpp"
#include "machine/driver_report.hpp"
#include "machine/header.hpp"
#include "machine/keys.hpp"
#include "machine/route.hpp"
#include "machine/validate.hpp"

namespace nb = nanobind;

namespace interlace::python {
namespace {

using machine::endpoint_kind;

// Returns the (link, forward) pairs of a route as tuples, which Python code can unpack.
std::optional<std::vector<std::pair<std::size_t, bool>>> route_pairs(
    const machine::machine& described, machine::endpoint from, machine::endpoint to) {
  const auto way = machine::route(described, from, to);
  if (!way) return std::nullopt;
  std::vector<std::pair<std::size_t, bool>> pairs;
  for (const machine::hop& step : *way) pairs.emplace_back(step.link, step.forward);
  return pairs;
}

// --- keys ----------------------------------------------------------------------------------------

template <class Enum, std::size_t Count>
const char* name_of(Enum value, const std::array<const char*, Count>& names) {
  return names.at(static_cast<std::size_t>(value));
}

constexpr std::array type_names{"whole", "number", "text", "name", "choice", "protocol", "ends"};
constexpr std::array need_names{"required",  "optional",    "preset", "pcie",
                                "pcie_only", "nvlink_only", "named",  "list"};
constexpr std::array rule_names{"power_of_two", "power_of_two_of",   "same",
                                "divides",      "multiple",          "at_most",
                                "less",         "at_least_together", "needs"};

nb::list parts(std::string_view text, char separator) {
  nb::list found;
  while (!text.empty()) {
    const std::size_t end = text.find(separator);
    found.append(std::string(text.substr(0, end)));
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
  }
  return found;
}

using row_list = nb::typed<nb::list, nb::typed<nb::dict, nb::str, nb::any>>;

row_list keys_as_data() {
  row_list all;
  for (const machine::key& one : machine::machine_keys()) {
    const machine::unit in = machine::unit_of(one.name);
    nb::dict row;
    row["table"] = one.table;
    row["name"] = one.name;
    row["type"] = name_of(one.type, type_names);
    row["unit"] = in.text;
    row["in_struct"] = in.in_struct;
    row["least"] = one.within.least;
    row["most"] = one.within.most;
    row["above_least"] = one.within.above_least;
    row["choices"] = parts(one.choices, '|');
    row["need"] = name_of(one.given, need_names);
    row["preset"] = one.preset;
    row["meaning"] = one.meaning;
    row["stored"] = one.field.of_machine != nullptr || one.field.of_protocol != nullptr ||
                    one.field.of_switch != nullptr || one.field.of_link != nullptr;
    all.append(row);
  }
  return all;
}

row_list tables_as_data() {
  row_list all;
  for (const machine::table& one : machine::machine_tables()) {
    nb::dict row;
    row["name"] = one.name;
    row["title"] = one.title;
    row["need"] = name_of(one.given, need_names);
    row["meaning"] = one.meaning;
    all.append(row);
  }
  return all;
}

row_list rules_as_data() {
  row_list all;
  for (const machine::rule& one : machine::machine_rules()) {
    nb::dict row;
    row["kind"] = name_of(one.kind, rule_names);
    row["key"] = one.key;
    row["others"] = parts(one.others, ' ');
    row["times"] = one.times;
    row["meaning"] = one.meaning;
    all.append(row);
  }
  return all;
}

template <class Owner>
std::pair<const machine::key*, machine::field> find(Owner& owner, const std::string& full) {
  const machine::key* const one = machine::find_key(full);
  const auto at = one == nullptr ? std::nullopt : machine::field_in(*one, owner);
  if (!at) throw nb::key_error(full.c_str());
  return {one, *at};
}

// Gives Python the values by key. owner["size_KiB"] is the value of the key `prefix` + "size_KiB"
// in the unit of the file. The value is None if a file would not have the key.
template <class Owner>
void bind_keys(nb::class_<Owner>& bound, const char* prefix) {
  bound.def(nb::init<>());
  bound.def("__getitem__", [prefix](Owner& owner, const std::string& name) -> machine::key_value {
    const auto [one, at] = find(owner, prefix + name);
    if constexpr (std::is_same_v<Owner, machine::protocol>)
      if (!machine::applies(*one, owner)) return std::monostate{};
    if constexpr (std::is_same_v<Owner, machine::machine>)
      if (!machine::has_table(one->table, owner)) return std::monostate{};
    return machine::value_of(*one, at);
  });
  bound.def("__setitem__",
            [prefix](Owner& owner, const std::string& name, const machine::key_value& value) {
              const auto [one, at] = find(owner, prefix + name);
              machine::set_value(*one, at, value);
            });
}

void bind_described(nb::module_& module) {
  nb::enum_<endpoint_kind>(module, "EndpointKind")
      .value("gpu", endpoint_kind::gpu)
      .value("network_switch", endpoint_kind::network_switch)
      .value("host", endpoint_kind::host);

  using machine::endpoint;
  nb::class_<endpoint>(module, "Endpoint")
      .def(nb::init<>())
      .def("__init__",
           [](endpoint* made, endpoint_kind kind, std::uint32_t index) {
             new (made) endpoint{kind, index};
           })
      // NOLINTNEXTLINE(misc-redundant-expression): nanobind's way to bind ==
      .def(nb::self == nb::self, nb::sig("def __eq__(self, arg: object, /) -> bool"))
      .def_rw("kind", &endpoint::kind)
      .def_rw("index", &endpoint::index);

  nb::class_<machine::protocol> rules(module, "Protocol");
  bind_keys(rules, "protocol.");

  nb::class_<machine::network_switch> between(module, "Switch");
  bind_keys(between, "switch.");

  using machine::link;
  nb::class_<link> edge(module, "Link");
  bind_keys(edge, "link.");
  edge.def_rw("a", &link::a).def_rw("b", &link::b).def_rw("packets", &link::protocol);

  using machine::machine;
  nb::class_<machine> whole(module, "Machine");
  bind_keys(whole, "");
  whole.def_rw("name", &machine::name)
      .def_ro("gpu_count", &machine::gpu_count)
      .def_rw("switches", &machine::switches)
      .def_rw("links", &machine::links);
}

void bind_discovery(nb::module_& module) {
  using machine::discovery;
  nb::class_<discovery>(module, "Discovery")
      .def_ro("found", &discovery::found)
      .def_ro("template_name", &discovery::template_name)
      .def_ro("same_model", &discovery::same_model)
      .def_ro("queried", &discovery::queried)
      .def_ro("link_rates", &discovery::link_rates)
      .def_ro("devices", &discovery::devices)
      .def_ro("relations", &discovery::relations)
      .def_ro("remarks", &discovery::remarks)
      .def_ro("driver_version", &discovery::driver_version)
      .def_ro("cuda_version", &discovery::cuda_version);

  using machine::found_device;
  nb::class_<found_device>(module, "FoundDevice")
      .def_ro("name", &found_device::name)
      .def_ro("bus_id", &found_device::bus_id)
      .def_ro("memory_bytes", &found_device::memory_bytes)
      .def_ro("pcie_generation", &found_device::pcie_generation)
      .def_ro("pcie_width", &found_device::pcie_width)
      .def_ro("numa_node", &found_device::numa_node)
      .def_ro("nvlinks", &found_device::nvlinks);

  module.def(
      "discover_machine",
      [](const std::vector<machine::machine>& known) {
        const auto driver = machine::open_driver();
        return machine::discover(*driver, known);
      },
      nb::arg("known"), nb::call_guard<nb::gil_scoped_release>(),
      "Discovers the machine of this node. The figures that no driver reports come from the "
      "machines "
      "in `known`.");
}

nb::typed<nb::dict, nb::str, nb::any> report_driver(int runtime, int least) {
  machine::driver_report found;
  {
    const nb::gil_scoped_release release;
    const auto driver = machine::open_driver();
    found = machine::report_driver(*driver, runtime, least);
  }
  nb::list gpus;
  for (const machine::reported_gpu& one : found.gpus) {
    nb::dict d;
    d["name"] = one.name;
    d["bus_id"] = one.bus_id;
    d["memory_bytes"] = one.memory_bytes;
    d["capability"] = one.capability;
    d["mig"] = one.mig;
    d["kernels"] = one.kernels;
    gpus.append(d);
  }
  nb::dict d;
  d["present"] = found.present;
  d["driver"] = found.driver;
  d["cuda"] = found.cuda;
  d["problem"] = found.problem;
  d["installed"] = found.installed;
  d["gpus"] = gpus;
  d["lost"] = found.lost;
  d["peer_access"] = found.peer_access;
  d["copies"] = found.copies;
  d["kernels"] = found.kernels;
  d["reductions"] = found.reductions;
  return d;
}

}  // namespace

void bind_machine(nb::module_& module) {
  bind_described(module);
  module.def("machine_keys", &keys_as_data, "Returns a row for each key of a machine file.");
  module.def("machine_tables", &tables_as_data, "Returns a row for each table of a machine file.");
  module.def("machine_rules", &rules_as_data, "Returns a row for each rule about several keys.");
  module.def("validate_machine", &interlace::machine::validate, nb::arg("machine"),
             "Returns one sentence for each error in the machine.");
  module.def("machine_header", &machine::header_of, nb::arg("machine"), nb::arg("function"),
             nb::arg("origin"), "Returns a C++ header with a function that returns the machine.");
  module.def("route", &route_pairs, nb::arg("machine"), nb::arg("start"), nb::arg("end"),
             "Returns the links of the best route as (index, forward), or None without a route.");
  bind_discovery(module);
  module.def(
      "report_driver", &report_driver, nb::arg("runtime"), nb::arg("least"),
      "Returns facts about the driver and the GPUs of this node, and the reasons why features "
      "do not work. Kernels need the CUDA version `runtime` and the capability `least`.");
}

}  // namespace interlace::python
