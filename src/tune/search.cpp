// The search for the fastest candidate. It first measures a coarse grid, and then a finer grid
// around the best points. It eliminates candidates step by step.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <utility>

#include "interlace/base/errors.hpp"
#include "interlace/base/statistics.hpp"
#include "interlace/tune.hpp"

namespace interlace {

namespace {

constexpr std::size_t coarse_stride = 4;   // the grid steps between points of the first round
constexpr std::size_t most_finalists = 6;  // the most finalists besides the controls
// A deviation can be computed from this many rounds of finalists or more.
constexpr std::uint32_t least_rounds = 3;
// Two candidates differ if their times are this many standard deviations of samples apart.
constexpr double explained = 3;
constexpr double decided = 2;  // two medians differ if they are this many standard errors apart
// The search ends once medians have this relative precision.
constexpr double precision = 0.01;

std::string percent(double part) {
  char text[32];
  std::snprintf(text, sizeof text, part < 0.1 ? "%.1f %%" : "%.0f %%", 100 * part);
  return text;
}

// Returns the reason why a slower candidate is dropped. The reason says by which fraction the
// candidate is slower. Chance can explain a fraction of up to `noise`.
std::string behind_text(double behind, const char* what, double noise, const char* source) {
  std::string text = percent(behind) + " above " + what;
  if (noise > 0) text += ", of which " + std::string(source) + " explain " + percent(noise);
  return text;
}

// Returns the standard deviation, or 0 for fewer than two values.
double deviation(const std::vector<double>& values) {
  if (values.size() < 2) return 0;
  const auto count = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  double sum = 0;
  for (const double v : values) sum += (v - mean) * (v - mean);
  return std::sqrt(sum / (count - 1));
}

// A point of a family's grid, with its measurements.
struct point {
  std::size_t family = 0;
  std::vector<std::size_t> at;  // the index of the value on each axis
  tune_measured known;
  bool impossible = false;
  double best_s = 0;       // the shortest time of all samples
  double median_s = 0;     // the median of all samples
  double deviation_s = 0;  // the standard deviation of the samples
  double error_s = 0;      // the standard error of the median of the final samples

  bool measured() const { return !known.rounds.empty(); }
};

struct family_state {
  std::size_t first = 0;  // the index of the family's first point
  std::size_t points = 1;
  std::optional<std::size_t> start;  // the index of the point at which the search begins
  // For each axis, the number of grid steps to the neighbours that are measured next.
  std::vector<std::size_t> strides;
  bool closed = false;
  std::string why_closed;
};

class search {
 public:
  search(const tune_space& space, const tune_measure_round& measure, const tune_rules& rules)
      : space_(space), measure_(measure), rules_(rules) {
    for (std::size_t f = 0; f < space.families.size(); ++f) add(f);
    if (points_.empty()) throw usage_error("there is nothing to try; give at least one mechanism");
  }

  tune_result run() {
    std::vector<std::size_t> next = coarse_points();
    while (!next.empty()) {
      measure(next, false);
      next = refined_points();
    }
    if (!leader()) throw usage_error("no candidate is possible: " + a_reason());
    std::vector<std::size_t> finalists = eliminate();
    if (!rules_.repeatable) compare(finalists);
    return decide(finalists);
  }

 private:
  // --- the grid ---

  void add(std::size_t f) {
    const tune_family& family = space_.families[f];
    family_state state;
    state.first = points_.size();
    for (const tune_axis& axis : family.axes) {
      const bool ascending = std::adjacent_find(axis.values.begin(), axis.values.end(),
                                                std::greater_equal<>()) == axis.values.end();
      if (axis.values.empty() || axis.values.front() == 0 || !ascending) {
        throw usage_error("the " + axis.name + " of " + family.mechanism +
                          " must be above 0 and ascend; correct the list");
      }
      state.points *= axis.values.size();
      state.strides.push_back(coarse_stride / 2);
    }
    for (std::size_t i = 0; i < state.points; ++i) {
      point p;
      p.family = f;
      p.at.resize(family.axes.size());
      p.known.candidate.mechanism = family.mechanism;
      p.known.control = family.control;
      std::size_t rest = i;
      for (std::size_t a = family.axes.size(); a-- > 0;) {
        p.at[a] = rest % family.axes[a].values.size();
        rest /= family.axes[a].values.size();
      }
      for (std::size_t a = 0; a < family.axes.size(); ++a) {
        p.known.candidate.parameters.push_back(
            {family.axes[a].name, family.axes[a].values[p.at[a]]});
      }
      if (!family.start.empty() && values_of(p.known.candidate) == family.start) {
        state.start = points_.size();
      }
      points_.push_back(std::move(p));
    }
    if (!family.start.empty() && !state.start) {
      throw usage_error("the start of " + family.mechanism +
                        " is not among the values to try; give a value of each axis");
    }
    families_.push_back(std::move(state));
  }

  static std::vector<std::uint64_t> values_of(const tune_candidate& candidate) {
    std::vector<std::uint64_t> found;
    for (const tune_parameter& p : candidate.parameters) found.push_back(p.value);
    return found;
  }

  const std::vector<std::uint64_t>& values(std::size_t family, std::size_t axis) const {
    return space_.families[family].axes[axis].values;
  }

  // Returns the points at every fourth value of each axis and at the last value of each axis. If a
  // family has a start, returns only the start for this family. Points of different families take
  // turns.
  std::vector<std::size_t> coarse_points() const {
    std::vector<std::vector<std::size_t>> found(families_.size());
    for (std::size_t i = 0; i < points_.size(); ++i) {
      const point& p = points_[i];
      if (const auto start = families_[p.family].start) {
        if (i == *start) found[p.family].push_back(i);
        continue;
      }
      bool coarse = true;
      for (std::size_t a = 0; a < p.at.size(); ++a) {
        const std::size_t last = values(p.family, a).size() - 1;
        coarse = coarse && (p.at[a] % coarse_stride == 0 || p.at[a] == last);
      }
      if (coarse) found[p.family].push_back(i);
    }
    return by_turns(found);
  }

  static std::vector<std::size_t> by_turns(const std::vector<std::vector<std::size_t>>& groups) {
    std::vector<std::size_t> found;
    std::size_t longest = 0;
    for (const auto& group : groups) longest = std::max(longest, group.size());
    for (std::size_t k = 0; k < longest; ++k) {
      for (const auto& group : groups) {
        if (k < group.size()) found.push_back(group[k]);
      }
    }
    return found;
  }

  // Returns the unmeasured points around a point. On each axis, their distance is 0 or one stride.
  // If the family has a start, they differ from the point on one axis only.
  std::vector<std::size_t> new_neighbours(std::size_t centre) const {
    const point& p = points_[centre];
    const family_state& state = families_[p.family];
    std::vector<std::size_t> found{0};  // indices in the list of the family's points
    for (std::size_t a = 0; a < p.at.size(); ++a) {
      const std::size_t size = values(p.family, a).size();
      const std::size_t s = state.strides[a];
      std::vector<std::size_t> places{p.at[a]};
      if (p.at[a] > 0) places.push_back(p.at[a] > s ? p.at[a] - s : 0);
      if (p.at[a] + 1 < size) places.push_back(std::min(p.at[a] + s, size - 1));
      std::vector<std::size_t> longer;
      for (const std::size_t offset : found) {
        for (const std::size_t place : places) longer.push_back(offset * size + place);
      }
      found = std::move(longer);
    }
    for (std::size_t& i : found) i += state.first;
    if (state.start) {
      std::erase_if(found, [&](std::size_t i) {
        std::size_t differing = 0;
        for (std::size_t a = 0; a < p.at.size(); ++a) {
          if (points_[i].at[a] != p.at[a]) ++differing;
        }
        return differing > 1;
      });
    }
    found.erase(std::remove_if(
                    found.begin(), found.end(),
                    [&](std::size_t i) { return points_[i].measured() || points_[i].impossible; }),
                found.end());
    std::sort(found.begin(), found.end());
    return found;
  }

  // Returns an estimate: the largest factor by which an unmeasured point can be faster than the
  // best point of its family. The unmeasured point lies between points of the last grid. The
  // strides of that grid were twice the current strides.
  double reach(const point& p) const {
    double factor = 1;
    for (std::size_t a = 0; a < p.at.size(); ++a) {
      const auto& axis = values(p.family, a);
      const std::size_t s = 2 * families_[p.family].strides[a];
      const auto at = static_cast<double>(axis[p.at[a]]);
      const auto above = static_cast<double>(axis[std::min(p.at[a] + s, axis.size() - 1)]);
      const auto below = static_cast<double>(axis[p.at[a] > s ? p.at[a] - s : 0]);
      factor *= std::sqrt(std::max(above / at, at / below));
    }
    return factor;
  }

  std::vector<std::size_t> refined_points() {
    std::vector<std::vector<std::size_t>> found(families_.size());
    for (std::size_t f = 0; f < families_.size(); ++f) found[f] = refined_points(f);
    return by_turns(found);
  }

  std::vector<std::size_t> refined_points(std::size_t f) {
    family_state& state = families_[f];
    if (state.closed) return {};
    const auto own = fastest(f);
    if (!own) {
      close(state,
            state.start ? "the start is not possible" : "no point of the coarse grid is possible");
      return {};
    }
    for (;;) {
      std::vector<std::size_t> next = new_neighbours(*own);
      if (!next.empty()) {
        const point& best = points_[*own];
        const double behind = best.best_s / points_[*leader()].median_s;
        const double factor = reach(best);
        // The bound is for points between measured points. A start has no measured points around
        // it.
        if (!best.known.control && !state.start && behind > factor) {
          close(state, "cannot win: its best is " + times(behind) +
                           " the leader's time, and a point between those measured is at most " +
                           times(factor) + " as fast");
          return {};
        }
        if (!rules_.repeatable) next.insert(next.begin(), *own);
        return next;
      }
      if (std::all_of(state.strides.begin(), state.strides.end(),
                      [](std::size_t stride) { return stride == 1; })) {
        close(state, "not next to the fastest point of its mechanism");
        return {};
      }
      for (std::size_t& stride : state.strides) stride = std::max<std::size_t>(1, stride / 2);
    }
  }

  static std::string times(double factor) {
    char text[32];
    std::snprintf(text, sizeof text, "%.2g times", factor);
    return text;
  }

  static void close(family_state& state, std::string why) {
    state.closed = true;
    state.why_closed = std::move(why);
  }

  // --- measuring ---

  std::uint64_t expected(const std::vector<std::size_t>& round, bool final) const {
    std::uint64_t rest = 0;
    if (final) {
      rest = round.size() * (final_rounds_ < least_rounds ? least_rounds - final_rounds_ - 1 : 0);
    } else {
      for (const family_state& state : families_) {
        if (state.closed) continue;
        std::size_t widest = 1;
        std::uint64_t around = 1;
        for (const std::size_t stride : state.strides) {
          widest = std::max(widest, stride);
          around = state.start ? around + 2 : 3 * around;
        }
        if (state.strides.empty()) around = 0;
        for (; widest > 1; widest /= 2) rest += std::min<std::uint64_t>(around, state.points);
      }
      if (!rules_.repeatable) {
        rest += least_rounds * std::min(points_.size(), most_finalists);
      }
    }
    return done_ + round.size() + rest;
  }

  void measure(const std::vector<std::size_t>& which, bool final) {
    tune_round round;
    round.number = ++round_;
    round.final = final;
    round.repeats = rules_.repeatable ? 1 : rules_.repeats;
    round.measured = done_;
    round.expected = expected(which, final);
    for (const std::size_t i : which) round.candidates.push_back(points_[i].known.candidate);
    std::vector<tune_samples> found = measure_(round);
    if (found.size() != which.size()) {
      throw usage_error("a round of " + std::to_string(which.size()) + " candidates gave " +
                        std::to_string(found.size()) +
                        " lists of samples; give one for each candidate");
    }
    for (std::size_t k = 0; k < which.size(); ++k) record(points_[which[k]], round, found[k]);
    done_ += which.size();
  }

  void record(point& p, const tune_round& round, tune_samples& found) {
    if (!found.impossible.empty()) {
      p.impossible = true;
      p.known.dropped = "not possible: " + found.impossible;
      p.known.dropped_round = round.number;
      return;
    }
    const bool sound = std::all_of(found.seconds.begin(), found.seconds.end(),
                                   [](double s) { return std::isfinite(s) && s > 0; });
    if (!sound || found.seconds.size() != round.repeats) {
      throw usage_error("measuring " + p.known.candidate.mechanism + " gave no " +
                        std::to_string(round.repeats) + " finite times above 0 s");
    }
    p.known.rounds.push_back({round.number, std::move(found.seconds)});
    if (round.final) p.known.finalist = true;
    const std::vector<double> all = samples(p, false);
    p.best_s = *std::min_element(all.begin(), all.end());
    p.median_s = median(all);
    p.deviation_s = deviation(all);
  }

  // Returns the samples of the final rounds if `final` is true, and otherwise all samples.
  std::vector<double> samples(const point& p, bool final) const {
    std::vector<double> found;
    for (const auto& round : p.known.rounds) {
      if (final && round.round <= explored_) continue;
      found.insert(found.end(), round.seconds.begin(), round.seconds.end());
    }
    return found;
  }

  // --- comparison ---

  bool possible(std::size_t i) const { return points_[i].measured() && !points_[i].impossible; }

  // Returns the point with the lowest median. If several points have this median, a control comes
  // before other points, and an earlier point before a later one.
  template <class Median>
  std::optional<std::size_t> lowest(const std::vector<std::size_t>& which, Median median) const {
    std::optional<std::size_t> found;
    for (const std::size_t i : which) {
      if (!possible(i)) continue;
      const bool better = !found || median(points_[i]) < median(points_[*found]) ||
                          (median(points_[i]) == median(points_[*found]) &&
                           points_[i].known.control && !points_[*found].known.control);
      if (better) found = i;
    }
    return found;
  }

  std::vector<std::size_t> every(std::size_t first, std::size_t count) const {
    std::vector<std::size_t> found(count);
    std::iota(found.begin(), found.end(), first);
    return found;
  }

  static double explored_median(const point& p) { return p.median_s; }
  static double final_median(const point& p) { return p.known.median_s; }

  std::optional<std::size_t> leader() const {
    return lowest(every(0, points_.size()), explored_median);
  }
  std::optional<std::size_t> fastest(std::size_t f) const {
    return lowest(every(families_[f].first, families_[f].points), explored_median);
  }

  std::string a_reason() const {
    const auto it =
        std::find_if(points_.begin(), points_.end(), [](const point& p) { return p.impossible; });
    return it == points_.end() ? "" : it->known.dropped;
  }

  static void drop(point& p, std::uint32_t round, std::string why) {
    p.known.dropped = std::move(why);
    p.known.dropped_round = round;
  }

  // --- elimination ---

  // Selects the candidates for the final rounds.
  std::vector<std::size_t> eliminate() {
    explored_ = round_;
    const std::size_t ahead = *leader();
    std::vector<double> relative;
    for (const point& p : points_) {
      if (p.measured()) relative.push_back(p.deviation_s / p.median_s);
    }
    const double common = median(relative);

    std::vector<std::size_t> controls;
    for (std::size_t f = 0; f < families_.size(); ++f) {
      if (!space_.families[f].control) continue;
      if (const auto best = fastest(f)) controls.push_back(*best);
    }
    std::vector<std::size_t> others;
    for (std::size_t i = 0; i < points_.size(); ++i) {
      point& p = points_[i];
      if (p.impossible) continue;
      if (!p.measured()) {
        drop(p, explored_, "not measured: " + families_[p.family].why_closed);
        continue;
      }
      if (std::find(controls.begin(), controls.end(), i) != controls.end()) continue;
      const double noise =
          explained * std::max({common, p.deviation_s / p.median_s,
                                points_[ahead].deviation_s / points_[ahead].median_s});
      const double behind = p.best_s / points_[ahead].best_s - 1;
      if (i == ahead || behind < noise) {
        others.push_back(i);
      } else {
        drop(p, explored_, behind_text(behind, "the leader's best sample", noise, "deviations"));
      }
    }
    std::stable_sort(others.begin(), others.end(), [&](std::size_t a, std::size_t b) {
      return points_[a].median_s < points_[b].median_s;
    });
    for (std::size_t k = most_finalists; k < others.size(); ++k) {
      drop(points_[others[k]], explored_,
           std::to_string(most_finalists) + " other candidates had lower medians");
    }
    others.resize(std::min(others.size(), most_finalists));
    controls.insert(controls.end(), others.begin(), others.end());
    return controls;
  }

  double error_between(std::size_t a, std::size_t b) const {
    // std::hypot is not used. A library that is built with glibc 2.35 and uses it would need glibc
    // 2.35 to run.
    const auto squared = [&](std::size_t k) { return points_[k].error_s * points_[k].error_s; };
    return decided * std::sqrt(squared(a) + squared(b));
  }

  // Measures the finalists in turn until it is clear which one is fastest.
  void compare(std::vector<std::size_t>& finalists) {
    const std::uint32_t most = std::max(rules_.most_rounds, least_rounds);
    while (final_rounds_ < most) {
      // Each round begins with another finalist, so that a finalist does not always run after the
      // same finalist.
      std::vector<std::size_t> turn = finalists;
      const auto shift = static_cast<std::ptrdiff_t>(final_rounds_ % turn.size());
      std::rotate(turn.begin(), turn.begin() + shift, turn.end());
      measure(turn, true);
      ++final_rounds_;
      finalists.erase(std::remove_if(finalists.begin(), finalists.end(),
                                     [&](std::size_t i) { return points_[i].impossible; }),
                      finalists.end());
      if (finalists.empty()) throw usage_error("no candidate stayed possible: " + a_reason());
      for (const std::size_t i : finalists) evaluate(points_[i]);
      if (final_rounds_ >= least_rounds && settled(finalists)) return;
    }
  }

  // Computes the median of the final samples and the standard error of this median. The error is
  // 1.25 times the standard error of the mean. It is computed from the deviations within rounds, or
  // from the deviations between rounds if those are larger, because all samples of one round can
  // share a deviation.
  void evaluate(point& p) const {
    std::vector<double> medians;
    double within = 0;
    for (const auto& round : p.known.rounds) {
      if (round.round > explored_) medians.push_back(median(round.seconds));
    }
    const std::vector<double> all = samples(p, true);
    within = 1.2533 * deviation(all) / std::sqrt(static_cast<double>(all.size()));
    const double between = deviation(medians) / std::sqrt(static_cast<double>(medians.size()));
    p.known.median_s = median(all);
    p.error_s = std::max(within, between);
  }

  // Drops candidates that are clearly slower. Returns whether the differences between the remaining
  // candidates are known precisely enough.
  bool settled(std::vector<std::size_t>& finalists) {
    const std::size_t ahead = *lowest(finalists, final_median);
    bool clear = true;
    std::vector<std::size_t> kept;
    for (const std::size_t i : finalists) {
      point& p = points_[i];
      const double error = error_between(i, ahead);
      const double behind = p.known.median_s - points_[ahead].known.median_s;
      const double lead = points_[ahead].known.median_s;
      const bool beaten = i != ahead && behind > error;
      if (i != ahead && !beaten && error > precision * lead) clear = false;
      if (!beaten || p.known.control) {
        kept.push_back(i);
      } else {
        drop(p, round_, behind_text(behind / lead, "the lowest median", error / lead, "errors"));
      }
    }
    finalists = std::move(kept);
    return clear;
  }

  tune_result decide(const std::vector<std::size_t>& finalists) {
    tune_result result;
    for (point& p : points_) {
      if (!p.measured()) continue;
      std::vector<double> all = samples(p, p.known.finalist);
      std::sort(all.begin(), all.end());
      p.known.median_s = quantile(all, 0.5);
      p.known.spread_s = quantile(all, 0.75) - quantile(all, 0.25);
    }
    std::vector<std::size_t> controls;
    for (const std::size_t i : finalists) {
      points_[i].known.finalist = true;
      if (points_[i].known.control) controls.push_back(i);
    }
    result.pick = *lowest(finalists, final_median);
    result.best_control = lowest(controls, final_median);
    if (result.best_control && *result.best_control != result.pick) {
      const std::size_t control = *result.best_control;
      const double lead = points_[control].known.median_s - points_[result.pick].known.median_s;
      result.error_s = error_between(result.pick, control);
      if (!(lead > result.error_s)) {
        result.control_unbeaten = true;
        result.pick = control;
      }
    }
    result.rounds = round_;
    for (point& p : points_) result.candidates.push_back(std::move(p.known));
    return result;
  }

  const tune_space& space_;
  const tune_measure_round& measure_;
  const tune_rules& rules_;
  std::vector<point> points_;
  std::vector<family_state> families_;
  std::uint32_t round_ = 0;
  std::uint32_t explored_ = 0;      // the number of the last round before the final rounds
  std::uint32_t final_rounds_ = 0;  // the number of final rounds so far
  std::uint64_t done_ = 0;
};

}  // namespace

tune_result tune_in_rounds(const tune_space& space, const tune_measure_round& measure,
                           const tune_rules& rules) {
  if (rules.repeats == 0) throw usage_error("a measurement needs at least one repeat");
  return search(space, measure, rules).run();
}

tune_result tune(const tune_space& space, const tune_measure& measure, const tune_rules& rules) {
  const auto one_by_one = [&](const tune_round& round) {
    std::vector<tune_samples> found;
    for (const tune_candidate& candidate : round.candidates) {
      tune_samples samples;
      try {
        samples.seconds = measure(candidate, round.repeats);
      } catch (const usage_error& refused) {
        samples.impossible = refused.what();
      }
      found.push_back(std::move(samples));
    }
    return found;
  };
  return tune_in_rounds(space, one_by_one, rules);
}

}  // namespace interlace
