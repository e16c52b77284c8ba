// Picks a mechanism and its parameters by measuring them (PROACT, section III-A: the profiler).
//
//   const interlace::tune_region region{part_bytes, sizeof(float), devices - 1};
//   const auto space = interlace::tune_space_of(region, {"bulk-copy", "split", "polling"});
//   const auto found = interlace::tune(space, [&](const interlace::tune_candidate& c, unsigned n) {
//     interlace::region_spec spec = others;
//     spec.mechanism = c.mechanism;
//     if (const auto bytes = c.parameter("chunk_bytes")) spec.chunk_bytes = *bytes;
//     if (const auto n = c.parameter("agent_threads")) spec.agent_threads = *n;
//     if (const auto n = c.parameter("bulk_threads")) {
//       spec.agent_threads = *n, spec.agent_copy = "bulk";
//     }
//     return seconds_of(n, spec);  // n runs with it
//   });
//   const auto& best = found.candidates[found.pick].candidate;
//
// The search eliminates candidates step by step. The candidates that it compares with each other
// are measured in turn, in the same round:
//
// 1. It measures a coarse grid of each mechanism's parameters, with a few samples of each
//    candidate. If a family has a start, it measures only the start.
// 2. It moves from each mechanism's fastest point to the point's neighbours on the grid, in steps
//    that halve, until no neighbour is left. The fastest point is measured again with its
//    neighbours. The search of a mechanism that cannot win ends early. The reason is this bound: a
//    time is a sum of terms, and each term grows at most in proportion to a parameter or to the
//    parameter's inverse. If two measured points are a factor f apart, a point between them is
//    therefore at most sqrt(f) times as fast as the faster of the two.
// 3. It drops candidates whose best sample is more than three standard deviations above the best of
//    the leader. The remaining candidates are the finalists, together with the best candidate of
//    each control. The search measures the finalists in turn, round by round, until their medians
//    are known to 1 % or differ by more than their errors explain. Only these rounds decide.
//    Earlier samples do not count again.
//
// The pick is the candidate with the lowest median if this candidate is faster than the best
// control by more than the errors explain. Otherwise the pick is the best control.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "interlace/kernel/mechanism.hpp"

namespace interlace {

// A parameter of a mechanism, with its value.
struct tune_parameter {
  std::string name;
  std::uint64_t value = 0;
  friend bool operator==(const tune_parameter&, const tune_parameter&) = default;
};

// A mechanism with its parameters, by name. docs/reference/mechanisms.md lists the parameters of
// each mechanism and their meanings.
struct tune_candidate {
  std::string mechanism;
  std::vector<tune_parameter> parameters;
  friend bool operator==(const tune_candidate&, const tune_candidate&) = default;

  // The value of a parameter, if the candidate has it.
  std::optional<std::uint64_t> parameter(std::string_view name) const;
};

// A parameter, with the values to try.
struct tune_axis {
  std::string name;
  std::vector<std::uint64_t> values;  // above 0, ascending, no duplicates
};

// A mechanism, with the values to try for each of its parameters. The search covers all
// combinations.
struct tune_family {
  std::string mechanism;
  std::vector<tune_axis> axes;
  // If true, the mechanism's best candidate stays to the end, and is picked unless another
  // candidate beats it.
  bool control = false;
  // A value for each axis, or empty. If it is given, the search does not measure a coarse grid. It
  // begins at this point, and measures neighbours that differ from the fastest point on one axis.
  std::vector<std::uint64_t> start = {};
};

// A candidate that the region rules out, with the reason.
struct tune_excluded {
  tune_candidate candidate;  // the mechanism, and only the parameter that the region rules out
  std::string reason;
};

// The candidates of a search, and the candidates that the region rules out.
struct tune_space {
  std::vector<tune_family> families;
  std::vector<tune_excluded> excluded;
};

// The data that a mechanism must move.
struct tune_region {
  std::uint64_t part_bytes = 0;  // size of the largest part that a device sends as a whole
  std::uint32_t element_bytes = 1;
  std::uint32_t peers = 1;  // number of receiving devices
};

// The values to try. Values that are not possible are left out. Each list follows the rules of
// tune_axis::values.
struct tune_grid {
  std::vector<std::uint64_t> ranges = tried(kernel::mechanism_parameter::ranges);
  std::vector<std::uint64_t> chunk_bytes = tried(kernel::mechanism_parameter::chunk_bytes);
  std::vector<std::uint64_t> agent_threads = tried(kernel::mechanism_parameter::agent_threads);
  // Two limits for `copy-engine`, in which each wait for a chunk has a cost. `least_copied_bytes`
  // is the smallest chunk, and `most_waits` is the largest number of chunks of a part.
  std::uint64_t least_copied_bytes = 256U << 10U;
  std::uint64_t most_waits = 250;
  std::vector<std::uint64_t> bulk_threads = {};  // if empty, agents that copy in bulk are not tried

  // The powers of 2 from `first` to `last`.
  static std::vector<std::uint64_t> powers_of_two(std::uint64_t first, std::uint64_t last);
  // The powers of 2 that the table of mechanisms lists for a parameter.
  static std::vector<std::uint64_t> tried(kernel::mechanism_parameter of);
};

// Returns the candidates that the region allows. The other candidates are returned with the reason
// why the region rules them out. Several chunk sizes can leave a part whole (see
// kernel/chunks.hpp); only the first of these chunk sizes is possible. If no chunk size is worth a
// wait of `copy-engine`, only the largest chunk size is possible. Mechanisms with the trait
// `control` are controls. Throws usage_error for a region without peers, for mechanisms that do not
// exist, and for invalid lists.
tune_space tune_space_of(const tune_region& region, const std::vector<std::string>& mechanisms,
                         const tune_grid& grid = {});

// The numbers of measurements of a search.
struct tune_rules {
  std::uint32_t repeats = 3;  // number of samples of a candidate in a round
  // The largest number of rounds for the finalists. A value below 3 counts as 3.
  std::uint32_t most_rounds = 8;
  // If true, every run of a candidate takes the same time, so one sample suffices.
  bool repeatable = false;
};

// The samples of one candidate in one round, or the reason why the candidate is impossible.
struct tune_samples {
  std::vector<double> seconds;
  std::string impossible;
};

// The request to measure one round.
struct tune_round {
  std::uint32_t number = 0;  // number of the round, counted from 1
  bool final = false;
  // The candidates without duplicates, in the order in which to measure them.
  std::vector<tune_candidate> candidates;
  std::uint32_t repeats = 0;   // number of samples to take of each candidate
  std::uint64_t measured = 0;  // number of candidates measured in all earlier rounds
  std::uint64_t expected = 0;  // estimated number of candidates in all rounds
};

// A candidate with all of its samples.
struct tune_measured {
  // The samples of one round.
  struct round_samples {
    std::uint32_t round = 0;
    std::vector<double> seconds;
  };

  tune_candidate candidate;
  std::vector<round_samples> rounds;  // all samples; empty if the candidate was not measured
  // The median over the samples of the final rounds or, if the candidate was in no final round,
  // over all samples. The median is 0 if there are no samples.
  double median_s = 0;
  double spread_s = 0;  // distance from the first to the third quartile
  bool control = false;
  bool finalist = false;
  std::string dropped;              // why the candidate was dropped; empty if it was not dropped
  std::uint32_t dropped_round = 0;  // round after which the candidate was dropped
};

// The result of a search.
struct tune_result {
  std::vector<tune_measured> candidates;  // candidates in the order of the space
  std::size_t pick = 0;
  std::optional<std::size_t> best_control;
  // The lead of the pick over the best control, in seconds, that chance alone can explain. The
  // value is 0 if the best control is the pick.
  double error_s = 0;
  // True if the pick is a control although another candidate has a lower median.
  bool control_unbeaten = false;
  std::uint32_t rounds = 0;
};

// Returns the samples of each candidate of a round, in seconds. An exception ends the search.
using tune_measure_round = std::function<std::vector<tune_samples>(const tune_round&)>;
// Returns the samples of one candidate. A usage_error says that the candidate is impossible.
using tune_measure =
    std::function<std::vector<double>(const tune_candidate&, std::uint32_t repeats)>;

// Searches the space. Throws usage_error if there is nothing to measure, if no candidate is
// possible, or if `measure` does not return the requested number of samples. A sample must be a
// finite number above 0.
tune_result tune_in_rounds(const tune_space& space, const tune_measure_round& measure,
                           const tune_rules& rules = {});
// Makes the same search with a function that measures one candidate at a time.
tune_result tune(const tune_space& space, const tune_measure& measure,
                 const tune_rules& rules = {});

}  // namespace interlace
