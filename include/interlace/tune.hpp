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
// The search is by successive elimination, and measures what it compares side by side:
//
// 1. A coarse grid of each mechanism's parameters, a few samples a candidate.
// 2. From each mechanism's fastest point to its neighbours on the grid, in steps that halve, until
//    no neighbour is left. The fastest point is measured again beside them. A mechanism ends early
//    that cannot win: a time is a sum of terms which grow at most in proportion to a parameter or
//    to its inverse, so a point between two others that lie a factor f apart is at most sqrt(f)
//    times as fast as the faster of them.
// 3. Dropped are candidates whose best sample lies further above the leader's than three standard
//    deviations. The rest, and the best of each control, are measured in turn, round by round,
//    until their medians are known to 1 % or lie further apart than their errors explain. These
//    rounds alone decide: what made a candidate a finalist does not count again.
//
// The pick has the lowest median. A control is picked unless something is faster than the best of
// them by more than the errors explain.
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

// A mechanism with its parameters, by name: docs/reference/mechanisms.md says which mechanism has
// which, and what they mean.
struct tune_candidate {
  std::string mechanism;
  std::vector<tune_parameter> parameters;
  friend bool operator==(const tune_candidate&, const tune_candidate&) = default;

  // The value of a parameter, if the candidate has it.
  std::optional<std::uint64_t> parameter(std::string_view name) const;
};

// A parameter, with the values that are tried.
struct tune_axis {
  std::string name;
  std::vector<std::uint64_t> values;  // above 0, ascending, each once
};

// A mechanism, and what is tried of each of its parameters: all combinations.
struct tune_family {
  std::string mechanism;
  std::vector<tune_axis> axes;
  bool control = false;  // its best stays to the end, and is the pick unless it is beaten
};

// A candidate that the region rules out, and why.
struct tune_excluded {
  tune_candidate candidate;  // with the parameter that is the reason
  std::string reason;
};

// The candidates of a search, and those that the region rules out.
struct tune_space {
  std::vector<tune_family> families;
  std::vector<tune_excluded> excluded;
};

// What is moved.
struct tune_region {
  std::uint64_t part_bytes = 0;  // of the largest part that a device sends as a whole
  std::uint32_t element_bytes = 1;
  std::uint32_t peers = 1;  // devices that receive
};

// What is tried where it is possible; each list as the values of a tune_axis.
struct tune_grid {
  std::vector<std::uint64_t> ranges = tried(kernel::mechanism_parameter::ranges);
  std::vector<std::uint64_t> chunk_bytes = tried(kernel::mechanism_parameter::chunk_bytes);
  std::vector<std::uint64_t> agent_threads = tried(kernel::mechanism_parameter::agent_threads);
  // Of `copy-engine`, which pays for each wait: the least chunk, and the most chunks of a part.
  std::uint64_t least_copied_bytes = 256U << 10U;
  std::uint64_t most_waits = 250;
  std::vector<std::uint64_t> bulk_threads = {};  // empty: no agent that copies in bulk is tried

  // The powers of 2 from `first` to `last`.
  static std::vector<std::uint64_t> powers_of_two(std::uint64_t first, std::uint64_t last);
  // The powers of 2 that the table of mechanisms names.
  static std::vector<std::uint64_t> tried(kernel::mechanism_parameter of);
};

// The candidates that the region leaves, and the others with the reason. Of the chunk sizes
// that leave a part whole (see kernel/chunks.hpp) only the first is possible. If no chunk is worth
// a wait of `copy-engine`, the largest is. Mechanisms with the trait `control` are controls. Throws
// usage_error for a region without peers, for mechanisms that do not exist, and for lists that are
// not as they should be.
tune_space tune_space_of(const tune_region& region, const std::vector<std::string>& mechanisms,
                         const tune_grid& grid = {});

// How often a search measures.
struct tune_rules {
  std::uint32_t repeats = 3;      // samples of a candidate in a round
  std::uint32_t most_rounds = 8;  // of finalists, at least 3
  bool repeatable = false;        // a candidate always takes the same time: one sample says all
};

// The samples of one candidate in one round; if it turned out to be impossible, why.
struct tune_samples {
  std::vector<double> seconds;
  std::string impossible;
};

// What one round asks the caller to measure.
struct tune_round {
  std::uint32_t number = 0;  // from 1
  bool final = false;
  std::vector<tune_candidate> candidates;  // each once, in the order to measure
  std::uint32_t repeats = 0;               // samples wanted of each
  std::uint64_t measured = 0;              // candidates in all rounds before
  std::uint64_t expected = 0;              // in all rounds, as far as can be foreseen
};

// A candidate with all of its samples.
struct tune_measured {
  // The samples of one round.
  struct round_samples {
    std::uint32_t round = 0;
    std::vector<double> seconds;
  };

  tune_candidate candidate;
  std::vector<round_samples> rounds;  // every sample; none: it was not measured
  // Of the samples of the final rounds, of all where it came into none; 0 without samples.
  double median_s = 0;
  double spread_s = 0;  // from the first to the third quartile
  bool control = false;
  bool finalist = false;
  std::string dropped;              // why, for those that were dropped
  std::uint32_t dropped_round = 0;  // behind this round
};

// What a search found.
struct tune_result {
  std::vector<tune_measured> candidates;  // in the order of the space
  std::size_t pick = 0;
  std::optional<std::size_t> best_control;
  // What of the difference to the best control errors explain, in seconds; 0 if that is the pick.
  double error_s = 0;
  bool control_unbeaten = false;  // the pick is a control although another median is lower
  std::uint32_t rounds = 0;
};

// Gives each candidate of a round its samples, in seconds. What it throws ends the search.
using tune_measure_round = std::function<std::vector<tune_samples>(const tune_round&)>;
// The same for one candidate at a time; a usage_error says that the candidate is impossible.
using tune_measure =
    std::function<std::vector<double>(const tune_candidate&, std::uint32_t repeats)>;

// Throws usage_error for a space with nothing to measure, if nothing is possible, and for samples
// that are not as many finite numbers above 0 as were asked for.
tune_result tune_in_rounds(const tune_space& space, const tune_measure_round& measure,
                           const tune_rules& rules = {});
// The same search with a function that measures one candidate at a time.
tune_result tune(const tune_space& space, const tune_measure& measure,
                 const tune_rules& rules = {});

}  // namespace interlace
