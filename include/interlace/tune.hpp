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
// The search proceeds by successive elimination, and measures the candidates that it compares side
// by side:
//
// 1. It measures a coarse grid of each mechanism's parameters, with a few samples a candidate.
// 2. It moves from each mechanism's fastest point to the point's neighbours on the grid, in steps
//    that halve, until no neighbour is left. The fastest point is measured again with its
//    neighbours. A mechanism that cannot win ends early: a time is a sum of terms which grow at
//    most in proportion to a parameter or to its inverse, so a point between two measured points
//    that are a factor f apart is at most sqrt(f) times as fast as the faster one.
// 3. It drops candidates whose best sample is more than three standard deviations above the best of
//    the leader. The other candidates, and the best of each control, are the finalists. They are
//    measured in turn, round by round, until their medians are known to 1 % or differ by more than
//    their errors explain. Only these rounds decide: earlier samples do not count again.
//
// The pick has the lowest median. But the best control is picked, unless a candidate is faster by
// more than the errors explain.
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
// each mechanism, and their meaning.
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
  // the mechanism's best candidate stays to the end, and is picked unless another candidate beats
  // it
  bool control = false;
};

// A candidate that the region rules out, with the reason.
struct tune_excluded {
  tune_candidate candidate;  // has the parameter that is the reason
  std::string reason;
};

// The candidates of a search, and those that the region rules out.
struct tune_space {
  std::vector<tune_family> families;
  std::vector<tune_excluded> excluded;
};

// The data that a mechanism must move.
struct tune_region {
  std::uint64_t part_bytes = 0;  // the largest part that a device sends as a whole
  std::uint32_t element_bytes = 1;
  std::uint32_t peers = 1;  // receiving devices
};

// The values to try if they are possible. Each list is as in tune_axis::values.
struct tune_grid {
  std::vector<std::uint64_t> ranges = tried(kernel::mechanism_parameter::ranges);
  std::vector<std::uint64_t> chunk_bytes = tried(kernel::mechanism_parameter::chunk_bytes);
  std::vector<std::uint64_t> agent_threads = tried(kernel::mechanism_parameter::agent_threads);
  // For `copy-engine`, where each wait has a cost: the smallest chunk, and the most chunks of a
  // part.
  std::uint64_t least_copied_bytes = 256U << 10U;
  std::uint64_t most_waits = 250;
  std::vector<std::uint64_t> bulk_threads = {};  // empty: agents that copy in bulk are not tried

  // The powers of 2 from `first` to `last`.
  static std::vector<std::uint64_t> powers_of_two(std::uint64_t first, std::uint64_t last);
  // The powers of 2 that the table of mechanisms lists for a parameter.
  static std::vector<std::uint64_t> tried(kernel::mechanism_parameter of);
};

// Returns the candidates that the region allows, and the others with the reason. Among chunk sizes
// that leave a part whole (see kernel/chunks.hpp), only the first one is possible. If no chunk is
// large enough to be worth a wait of `copy-engine`, only the largest one is possible. Mechanisms
// with the trait `control` are controls. Throws usage_error for a region without peers, for
// mechanisms that do not exist, and for invalid lists.
tune_space tune_space_of(const tune_region& region, const std::vector<std::string>& mechanisms,
                         const tune_grid& grid = {});

// How often a search measures.
struct tune_rules {
  std::uint32_t repeats = 3;      // samples of a candidate in a round
  std::uint32_t most_rounds = 8;  // rounds of finalists, at least 3
  bool repeatable = false;  // every run of a candidate takes the same time, so one sample suffices
};

// The samples of one candidate in one round, or the reason why the candidate is impossible.
struct tune_samples {
  std::vector<double> seconds;
  std::string impossible;
};

// The request to measure one round.
struct tune_round {
  std::uint32_t number = 0;  // the number of the round, from 1 on
  bool final = false;
  std::vector<tune_candidate> candidates;  // no duplicates, in the order in which to measure
  std::uint32_t repeats = 0;               // samples wanted for each candidate
  std::uint64_t measured = 0;              // candidates measured in all earlier rounds
  std::uint64_t expected = 0;              // estimated candidates in all rounds
};

// A candidate with all of its samples.
struct tune_measured {
  // The samples of one round.
  struct round_samples {
    std::uint32_t round = 0;
    std::vector<double> seconds;
  };

  tune_candidate candidate;
  std::vector<round_samples> rounds;  // all samples; empty: not measured
  // Over the samples of the final rounds; over all samples if the candidate came into none; 0
  // without samples.
  double median_s = 0;
  double spread_s = 0;  // the distance from the first to the third quartile
  bool control = false;
  bool finalist = false;
  std::string dropped;              // why the candidate was dropped; empty if it was not
  std::uint32_t dropped_round = 0;  // the round after which the candidate was dropped
};

// The result of a search.
struct tune_result {
  std::vector<tune_measured> candidates;  // the candidates in the order of the space
  std::size_t pick = 0;
  std::optional<std::size_t> best_control;
  // By how many seconds the pick may be faster than the best control only by chance. 0 if the best
  // control is the pick.
  double error_s = 0;
  // the pick is a control although another candidate has a lower median
  bool control_unbeaten = false;
  std::uint32_t rounds = 0;
};

// Returns the samples of each candidate of a round, in seconds. An exception ends the search.
using tune_measure_round = std::function<std::vector<tune_samples>(const tune_round&)>;
// The same for one candidate at a time. A usage_error says that the candidate is impossible.
using tune_measure =
    std::function<std::vector<double>(const tune_candidate&, std::uint32_t repeats)>;

// Throws usage_error if there is nothing to measure, if no candidate is possible, and if samples
// are not the requested number of finite numbers above 0.
tune_result tune_in_rounds(const tune_space& space, const tune_measure_round& measure,
                           const tune_rules& rules = {});
// The same search with a function that measures one candidate at a time.
tune_result tune(const tune_space& space, const tune_measure& measure,
                 const tune_rules& rules = {});

}  // namespace interlace
