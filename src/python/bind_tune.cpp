#include "python/bind_tune.hpp"

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "interlace/tune.hpp"
#include "python/signals.hpp"
#include "python/workloads.hpp"

namespace nb = nanobind;

namespace interlace::python {

namespace {

using plain_candidate = std::pair<std::string, std::map<std::string, std::uint64_t>>;
using values = std::vector<std::uint64_t>;

plain_candidate plain(const tune_candidate& candidate) {
  plain_candidate found{candidate.mechanism, {}};
  for (const tune_parameter& p : candidate.parameters) found.second[p.name] = p.value;
  return found;
}

tune_space space_of(std::uint64_t part_bytes, std::uint32_t element_bytes, std::uint32_t peers,
                    const std::vector<std::string>& mechanisms, values ranges, values chunk_bytes,
                    values agent_threads, values bulk_threads, std::uint64_t least_copied_bytes,
                    std::optional<std::uint64_t> most_waits) {
  constexpr auto any = std::numeric_limits<std::uint64_t>::max();
  return tune_space_of({part_bytes, element_bytes, peers}, mechanisms,
                       {std::move(ranges), std::move(chunk_bytes), std::move(agent_threads),
                        least_copied_bytes, most_waits.value_or(any), std::move(bulk_threads)});
}

// Makes a family of candidates with named axes. Each axis is a pair (name, values).
tune_family make_family(std::string mechanism,
                        const std::vector<std::pair<std::string, values>>& axes, bool control,
                        values start) {
  tune_family family{std::move(mechanism), {}, control, std::move(start)};
  for (const auto& [name, tried] : axes) family.axes.push_back({name, tried});
  return family;
}

// The type of `measure`. For each candidate of a round, `measure` returns a list of seconds, or a
// string that says why the candidate is impossible.
using measure_round = nb::typed<nb::callable, nb::object(tune_round)>;

tune_result search(const tune_space& space, const measure_round& measure, std::uint32_t repeats,
                   std::uint32_t most_rounds, bool repeatable) {
  const auto call = [&](const tune_round& round) {
    check_signals();
    const nb::object given = measure(round);
    std::vector<tune_samples> found;
    for (const nb::handle one : given) {
      tune_samples samples;
      if (nb::isinstance<nb::str>(one)) {
        samples.impossible = nb::cast<std::string>(one);
      } else {
        samples.seconds = nb::cast<std::vector<double>>(one);
      }
      found.push_back(std::move(samples));
    }
    return found;
  };
  return tune_in_rounds(space, call, {repeats, most_rounds, repeatable});
}

}  // namespace

void bind_tune(nb::module_& module) {
  nb::class_<tune_family>(module, "TuneFamily")
      .def(
          "__init__",
          [](tune_family* self, std::string mechanism,
             const std::vector<std::pair<std::string, values>>& axes, bool control, values start) {
            new (self)
                tune_family(make_family(std::move(mechanism), axes, control, std::move(start)));
          },
          nb::arg("mechanism"), nb::arg("axes") = std::vector<std::pair<std::string, values>>{},
          nb::arg("control") = false, nb::arg("start") = values{})
      .def_ro("mechanism", &tune_family::mechanism)
      .def_prop_ro("axes",
                   [](const tune_family& family) {
                     std::vector<std::pair<std::string, values>> found;
                     for (const tune_axis& axis : family.axes) {
                       found.emplace_back(axis.name, axis.values);
                     }
                     return found;
                   })
      .def_ro("control", &tune_family::control);
  nb::class_<tune_space>(module, "TuneSpace")
      .def(nb::init<std::vector<tune_family>>(), nb::arg("families"))
      .def_ro("families", &tune_space::families)
      .def_prop_ro(
          "excluded",
          [](const tune_space& space) {
            std::vector<std::pair<plain_candidate, std::string>> found;
            for (const tune_excluded& out : space.excluded) {
              found.emplace_back(plain(out.candidate), out.reason);
            }
            return found;
          },
          "Returns the impossible values as pairs: a candidate with only this value, and a "
          "reason.");
  nb::class_<tune_round>(module, "TuneRound")
      .def_ro("number", &tune_round::number)
      .def_ro("final", &tune_round::final)
      .def_prop_ro("candidates",
                   [](const tune_round& round) {
                     std::vector<plain_candidate> found;
                     for (const tune_candidate& c : round.candidates) found.push_back(plain(c));
                     return found;
                   })
      .def_ro("repeats", &tune_round::repeats)
      .def_ro("measured", &tune_round::measured)
      .def_ro("expected", &tune_round::expected);
  nb::class_<tune_measured>(module, "TuneMeasured")
      .def_prop_ro("candidate", [](const tune_measured& it) { return plain(it.candidate); })
      .def_prop_ro("rounds",
                   [](const tune_measured& it) {
                     std::vector<std::pair<std::uint32_t, std::vector<double>>> found;
                     for (const auto& round : it.rounds) {
                       found.emplace_back(round.round, round.seconds);
                     }
                     return found;
                   })
      .def_ro("median_s", &tune_measured::median_s)
      .def_ro("spread_s", &tune_measured::spread_s)
      .def_ro("control", &tune_measured::control)
      .def_ro("finalist", &tune_measured::finalist)
      .def_ro("dropped", &tune_measured::dropped)
      .def_ro("dropped_round", &tune_measured::dropped_round);
  nb::class_<tune_result>(module, "TuneResult")
      .def_ro("candidates", &tune_result::candidates)
      .def_ro("pick", &tune_result::pick)
      .def_ro("best_control", &tune_result::best_control)
      .def_ro("error_s", &tune_result::error_s)
      .def_ro("control_unbeaten", &tune_result::control_unbeaten)
      .def_ro("rounds", &tune_result::rounds);

  const tune_grid grid;
  module.def("tune_space", &space_of, nb::arg("part_bytes"), nb::arg("element_bytes"),
             nb::arg("peers"), nb::arg("mechanisms"), nb::arg("ranges") = grid.ranges,
             nb::arg("chunk_bytes") = grid.chunk_bytes,
             nb::arg("agent_threads") = grid.agent_threads,
             nb::arg("bulk_threads") = grid.bulk_threads,
             nb::arg("least_copied_bytes") = grid.least_copied_bytes,
             nb::arg("most_waits") = std::optional<std::uint64_t>(grid.most_waits),
             "Returns the candidates that a region allows.");
  const tune_rules rules;
  module.def(
      "tune_in_rounds", &search, nb::arg("space"), nb::arg("measure"),
      nb::arg("repeats") = rules.repeats, nb::arg("most_rounds") = rules.most_rounds,
      nb::arg("repeatable") = rules.repeatable,
      "Finds the fastest candidate. `measure` returns, for each candidate of a TuneRound, a list "
      "of seconds or a string that says why the candidate is impossible.");
}

}  // namespace interlace::python
