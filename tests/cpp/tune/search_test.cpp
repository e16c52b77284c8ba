// The search, with synthetic times. The tests check what the search finds, what it never picks, and
// how much it measures.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>
#include <set>

#include "base/units.hpp"
#include "interlace/base/errors.hpp"
#include "interlace/tune.hpp"

namespace interlace::search_tests {
namespace {

using random_engine = std::mt19937_64;

double uniform(random_engine& random, double low, double high) {
  return std::uniform_real_distribution<double>(low, high)(random);
}

// True times from a model of sending. The model has a cost of each chunk, a cost of the last
// chunk's tail, and costs of the threads. As the search assumes, every term is proportional to a
// parameter or to the inverse of a parameter.
struct costs {
  double kernel = 0, copies = 0;  // bulk-copy takes the sum of `kernel` and `copies`
  double launch = 0;              // split: the cost of each range
  double stores = 0;              // inline: the cost of its stores
  double chunk = 0, tail = 0, thread = 0, place = 0;  // costs of polling
  double wait = 0;                                    // copy-engine: the wait for each chunk

  explicit costs(random_engine& random) {
    const auto log_uniform = [&](double low, double high) {
      return std::exp(uniform(random, std::log(low), std::log(high)));
    };
    kernel = log_uniform(20e-6, 5e-3);
    copies = kernel * log_uniform(0.1, 2);
    launch = log_uniform(1e-6, 20e-6);
    stores = copies * uniform(random, 0.9, 4);
    chunk = log_uniform(1e-7, 1e-5);
    tail = log_uniform(2e-12, 2e-11);
    thread = log_uniform(1e-3, 1);
    place = log_uniform(1e-10, 1e-8);
    wait = log_uniform(2e-6, 1e-4);
  }

  double operator()(const tune_candidate& c, double part_bytes) const {
    const auto value = [&](const char* name) {
      return static_cast<double>(c.parameter(name).value_or(1));
    };
    const double longer = std::max(kernel, copies);
    if (c.mechanism == "bulk-copy") return kernel + copies;
    if (c.mechanism == "split") {
      return longer + std::min(kernel, copies) / value("ranges") + launch * value("ranges");
    }
    if (c.mechanism == "inline") return std::max(kernel, stores);
    const double chunks = part_bytes / value("chunk_bytes");
    const double last = tail * value("chunk_bytes");
    if (c.mechanism == "copy-engine") return longer + wait * chunks + last;
    const double threads = value("agent_threads");
    return longer + chunk * chunks + last + copies * thread / threads + place * threads;
  }
};

const std::vector<std::string> all{"bulk-copy", "split", "inline", "polling", "copy-engine"};

struct observed {
  tune_result result;
  std::uint64_t measured = 0;  // the number of measured candidates, summed over all rounds
  std::set<std::string> different;
};

std::string name_of(const tune_candidate& c) {
  std::string text = c.mechanism;
  for (const auto& p : c.parameters) text += " " + std::to_string(p.value);
  return text;
}

// Searches with times that have realistic noise: most of the noise is small, some samples are late,
// and all samples of one call share a part of the noise.
observed search_noisy(const tune_space& space, const costs& cost, double part_bytes, double noise,
                      random_engine& random) {
  observed seen;
  tune_rules rules;
  rules.repeatable = noise == 0;
  seen.result = tune(
      space,
      [&](const tune_candidate& c, std::uint32_t repeats) {
        ++seen.measured;
        seen.different.insert(name_of(c));
        std::normal_distribution<double> normal(0, 1);
        const double call = 1 + 0.3 * noise * normal(random);
        std::vector<double> seconds;
        for (std::uint32_t i = 0; i < repeats; ++i) {
          const double late = uniform(random, 0, 1) < 0.02 ? 10 * noise : 0;
          seconds.push_back(cost(c, part_bytes) * call *
                            (1 + noise * std::abs(normal(random)) + late));
        }
        return seconds;
      },
      rules);
  return seen;
}

double fastest(const tune_space& space, const costs& cost, double part_bytes, bool controls) {
  double found = INFINITY;
  tune_rules rules;
  for (const tune_family& family : space.families) {
    if (controls && !family.control) continue;
    std::vector<tune_candidate> points{{family.mechanism, {}}};
    for (const tune_axis& axis : family.axes) {
      std::vector<tune_candidate> longer;
      for (const tune_candidate& p : points) {
        for (const std::uint64_t value : axis.values) {
          longer.push_back(p);
          longer.back().parameters.push_back({axis.name, value});
        }
      }
      points = std::move(longer);
    }
    for (const tune_candidate& p : points) found = std::min(found, cost(p, part_bytes));
  }
  return found;
}

class search_by_noise : public testing::TestWithParam<double> {};

TEST_P(search_by_noise, finds_the_minimum_and_never_loses_to_a_control) {
  random_engine random(7);
  for (int i = 0; i < 300; ++i) {
    const costs cost(random);
    const std::uint64_t part = std::uint64_t{1} << (12U + random() % 17);
    const auto bytes = static_cast<double>(part);
    const tune_space space = tune_space_of({part, 4, 3}, all);
    const observed seen = search_noisy(space, cost, bytes, GetParam(), random);
    const tune_measured& pick = seen.result.candidates[seen.result.pick];
    const double time = cost(pick.candidate, bytes);
    const std::string picked = std::to_string(i) + ": " + name_of(pick.candidate);
    EXPECT_LE(time, 1.02 * fastest(space, cost, bytes, false)) << picked;
    EXPECT_LE(time, (GetParam() == 0 ? 1 : 1.02) * fastest(space, cost, bytes, true)) << picked;
    // The search measures at most 70 of 144 candidates. With noise, it measures every finalist in
    // up to three rounds, so the bound for all measurements is higher.
    EXPECT_LE(seen.different.size(), 70U) << picked;
    EXPECT_LE(seen.measured, GetParam() == 0 ? 70U : 160U) << picked;
  }
}

INSTANTIATE_TEST_SUITE_P(noise, search_by_noise, testing::Values(0.0, 0.002, 0.01));

// These costs have one minimum on the grid. Along each axis, the cost falls towards the minimum. It
// falls by at most one octave for each octave of the parameter. This is the steepest slope that the
// search assumes.
TEST(search, finds_the_minimum_of_unimodal_surfaces) {
  random_engine random(11);
  for (int i = 0; i < 500; ++i) {
    tune_space space;
    space.families.push_back({"control", {}, true});
    // For each mechanism, the log2 of the distance from the minimum.
    std::map<std::string, std::vector<double>> least;
    for (const char* name : {"a", "b", "c"}) {
      tune_family family{name, {}, false};
      for (std::size_t axis = random() % 3; axis-- > 0;) {
        const std::uint64_t first = 1U << (random() % 8);
        family.axes.push_back({"axis" + std::to_string(axis),
                               tune_grid::powers_of_two(first, first << (random() % 14))});
        least[name].push_back(uniform(random, 0, 20));
      }
      space.families.push_back(family);
    }
    std::map<std::string, double> slope;
    std::map<std::string, double> base;
    for (const char* name : {"a", "b", "c"}) {
      slope[name] = uniform(random, 0.05, 1);
      base[name] = uniform(random, 1, 3);
    }
    const auto cost = [&](const tune_candidate& c) {
      if (c.mechanism == "control") return 2.0;
      double octaves = 0;
      for (std::size_t a = 0; a < c.parameters.size(); ++a) {
        octaves +=
            std::abs(std::log2(static_cast<double>(c.parameters[a].value)) - least[c.mechanism][a]);
      }
      return base[c.mechanism] * std::exp2(slope[c.mechanism] * octaves);
    };
    tune_rules rules;
    rules.repeatable = true;
    const tune_result found = tune(
        space, [&](const tune_candidate& c, std::uint32_t) { return std::vector{cost(c)}; }, rules);
    double lowest = INFINITY;
    for (const tune_measured& c : found.candidates) lowest = std::min(lowest, cost(c.candidate));
    EXPECT_DOUBLE_EQ(cost(found.candidates[found.pick].candidate), lowest) << i;
  }
}

// Whatever the times are, the promises about the record, about controls, and about the order of
// measurements must hold.
TEST(search, keeps_its_promises_on_any_surface) {
  random_engine random(3);
  for (int i = 0; i < 200; ++i) {
    const std::uint64_t part = std::uint64_t{1} << (10U + random() % 18);
    const tune_space space = tune_space_of({part, 4, 1}, all);
    std::map<std::string, double> times;
    std::map<std::string, bool> impossible;
    std::uint64_t given = 0;
    std::uint32_t rounds = 0;
    bool final = false;
    tune_rules rules;
    rules.repeatable = i % 2 == 0;
    const tune_result found = tune_in_rounds(
        space,
        [&](const tune_round& round) {
          EXPECT_EQ(round.number, ++rounds);
          EXPECT_LE(round.measured + round.candidates.size(), round.expected);
          EXPECT_TRUE(round.final || !final);
          final = round.final;
          std::set<std::string> names;
          std::vector<tune_samples> samples;
          for (const tune_candidate& c : round.candidates) {
            const std::string name = name_of(c);
            EXPECT_TRUE(names.insert(name).second) << name;
            EXPECT_FALSE(impossible[name]) << name << " was asked for again";
            if (!times.contains(name)) {
              times[name] = uniform(random, 1, 10);
              impossible[name] = c.mechanism != "bulk-copy" && c.mechanism != "split" &&
                                 uniform(random, 0, 1) < 0.1;
            }
            tune_samples one;
            if (impossible[name]) one.impossible = "no";
            for (std::uint32_t k = 0; k < round.repeats && !impossible[name]; ++k) {
              one.seconds.push_back(times[name] * uniform(random, 1, rules.repeatable ? 1 : 1.02));
            }
            given += one.seconds.size();
            samples.push_back(std::move(one));
          }
          return samples;
        },
        rules);
    EXPECT_EQ(found.rounds, rounds);
    const tune_measured& pick = found.candidates[found.pick];
    std::uint64_t kept = 0;
    bool bulk = false;
    std::uint32_t splits = 0;
    std::uint32_t final_rounds = 0;
    for (const tune_measured& c : found.candidates) {
      const std::string name = name_of(c.candidate);
      EXPECT_EQ(c.dropped.empty(), c.finalist && c.dropped_round == 0) << name << c.dropped;
      EXPECT_TRUE(!c.rounds.empty() || !c.dropped.empty()) << name;
      EXPECT_EQ(c.dropped.rfind("not possible: no", 0) == 0, impossible[name]) << name;
      for (const auto& round : c.rounds) kept += round.seconds.size();
      if (c.rounds.empty()) continue;
      bulk = bulk || (c.candidate.mechanism == "bulk-copy" && c.dropped.empty());
      if (c.candidate.mechanism == "split" && c.dropped.empty()) ++splits;
      if (c.dropped.empty() && &c != &pick) {
        EXPECT_GE(c.median_s, rules.repeatable || !pick.control ? pick.median_s : 0) << name;
        final_rounds = std::max(final_rounds, static_cast<std::uint32_t>(c.rounds.size()));
      }
    }
    EXPECT_EQ(kept, given);  // every sample is in the result
    EXPECT_TRUE(bulk);
    EXPECT_GE(splits, 1U);
    EXPECT_TRUE(pick.dropped.empty());
    EXPECT_GE(final_rounds, rules.repeatable ? 0U : 3U);
    ASSERT_TRUE(found.best_control.has_value());
    EXPECT_TRUE(found.candidates[*found.best_control].control);
    if (pick.control) {
      EXPECT_EQ(*found.best_control, found.pick);
    } else {
      EXPECT_GT(found.candidates[*found.best_control].median_s - pick.median_s, found.error_s);
    }
  }
}

tune_space one_of_each(const std::vector<std::string>& names) {
  return tune_space_of({4 * kib, 4, 1}, names, {{2}, {4 * kib}, {32}});
}

TEST(search, a_tie_is_the_control_s) {
  const auto equal = [](const tune_candidate&, std::uint32_t n) { return std::vector(n, 1e-3); };
  for (const bool repeatable : {false, true}) {
    tune_rules rules;
    rules.repeatable = repeatable;
    const tune_result found = tune(one_of_each({"inline", "polling", "split"}), equal, rules);
    EXPECT_EQ(found.candidates[found.pick].candidate.mechanism, "split");
  }
}

TEST(search, a_difference_that_noise_explains_is_the_control_s) {
  random_engine random(5);
  const auto noisy = [&](const tune_candidate& c, std::uint32_t n) {
    std::vector<double> seconds;
    for (std::uint32_t i = 0; i < n; ++i) {
      seconds.push_back((c.mechanism == "inline" ? 0.999 : 1.0) * uniform(random, 1, 1.4));
    }
    return seconds;
  };
  for (int i = 0; i < 20; ++i) {
    const tune_result found = tune(one_of_each({"bulk-copy", "inline"}), noisy);
    const tune_measured& pick = found.candidates[found.pick];
    const bool lower = found.candidates[1].median_s < found.candidates[0].median_s;
    if (pick.candidate.mechanism == "bulk-copy") {
      EXPECT_EQ(found.control_unbeaten, lower);
    } else {
      EXPECT_GT(found.candidates[0].median_s - pick.median_s, found.error_s);
    }
    // Each candidate has one round in the exploration and three rounds at the end.
    EXPECT_GE(found.candidates[0].rounds.size(), 4U);
  }
}

TEST(search, a_search_without_controls_has_a_pick) {
  const tune_result found =
      tune(one_of_each({"inline", "polling"}), [](const tune_candidate& c, std::uint32_t n) {
        return std::vector(n, c.mechanism == "inline" ? 2.0 : 1.0);
      });
  EXPECT_EQ(found.candidates[found.pick].candidate.mechanism, "polling");
  EXPECT_FALSE(found.best_control.has_value());
}

TEST(search, impossible_candidates_are_left_out_and_errors_end_it) {
  const auto refusing = [](const char* what) {
    return [what](const tune_candidate& c, std::uint32_t n) {
      if (c.mechanism == what) throw usage_error("it has no room");
      return std::vector(n, 1.0);
    };
  };
  const tune_result found = tune(one_of_each({"bulk-copy", "inline"}), refusing("inline"));
  EXPECT_EQ(found.candidates[1].dropped, "not possible: it has no room");
  EXPECT_EQ(found.candidates[1].dropped_round, 1U);
  EXPECT_EQ(found.pick, 0U);

  EXPECT_THROW(tune(one_of_each({"inline"}), refusing("inline")), usage_error);
  EXPECT_THROW(tune({}, refusing("")), usage_error);
  EXPECT_THROW(tune(one_of_each({"inline"}), refusing(""), {0, 8, false}), usage_error);
  for (const double wrong : {0.0, -1.0, static_cast<double>(INFINITY), std::nan("")}) {
    const auto measure = [&](const tune_candidate&, std::uint32_t n) {
      return std::vector(n, wrong);
    };
    EXPECT_THROW(tune(one_of_each({"inline"}), measure), usage_error);
  }
  const auto few = [](const tune_candidate&, std::uint32_t) { return std::vector{1.0}; };
  EXPECT_THROW(tune(one_of_each({"inline"}), few), usage_error);
  const auto none = [](const tune_round&) { return std::vector<tune_samples>{}; };
  EXPECT_THROW(tune_in_rounds(one_of_each({"inline"}), none), usage_error);
  const auto broken = [](const tune_candidate&, std::uint32_t) -> std::vector<double> {
    throw device_error("gone");
  };
  EXPECT_THROW(tune(one_of_each({"inline"}), broken), device_error);
}

TEST(search, a_mechanism_that_cannot_win_ends_early) {
  const tune_space space = tune_space_of({64 * mib, 4, 1}, {"bulk-copy", "polling", "copy-engine"});
  tune_rules rules;
  rules.repeatable = true;
  const tune_result found = tune(
      space,
      [](const tune_candidate& c, std::uint32_t) {
        return std::vector{c.mechanism == "copy-engine" ? 5.0 : 1.0};
      },
      rules);
  std::uint32_t measured = 0;
  for (const tune_measured& c : found.candidates) {
    if (c.candidate.mechanism != "copy-engine") continue;
    if (!c.rounds.empty()) {
      ++measured;
    } else {
      EXPECT_EQ(c.dropped.rfind("not measured: cannot win", 0), 0U) << c.dropped;
    }
  }
  EXPECT_EQ(measured, 3U);  // the search measured 3 of 7 candidates
}

// The time has one minimum, and each parameter adds to it independently of the others.
TEST(search, from_a_start_follows_one_parameter_at_a_time) {
  tune_family packed{"packed", {}, false, {}};
  for (const char* name : {"packet_bytes", "queue_bytes", "unpack_blocks"}) {
    packed.axes.push_back({name, tune_grid::powers_of_two(1, 256)});
  }
  packed.axes.push_back({"combining", {1, 2}});
  packed.start = {4, 64, 16, 2};
  tune_rules rules;
  rules.repeatable = true;
  std::vector<tune_candidate> measured;
  const auto seconds = [&](const tune_candidate& c, std::uint32_t) {
    measured.push_back(c);
    if (c.mechanism == "bulk-copy") return std::vector{20.0};
    const auto octaves = [&](const char* name, double best) {
      return std::abs(std::log2(static_cast<double>(*c.parameter(name)) / best));
    };
    return std::vector{1 + octaves("packet_bytes", 64) + octaves("queue_bytes", 8) +
                       octaves("unpack_blocks", 16) +
                       static_cast<double>(*c.parameter("combining"))};
  };
  const tune_result found = tune({{{"bulk-copy", {}, true, {}}, packed}, {}}, seconds, rules);
  const tune_candidate& best = found.candidates[found.pick].candidate;
  EXPECT_EQ(best.parameter("packet_bytes"), 64U);
  EXPECT_EQ(best.parameter("queue_bytes"), 8U);
  EXPECT_EQ(best.parameter("unpack_blocks"), 16U);
  EXPECT_EQ(best.parameter("combining"), 1U);
  ASSERT_GE(measured.size(), 2U);
  EXPECT_EQ(measured[1].parameter("packet_bytes"), 4U);  // the start comes first
  EXPECT_EQ(measured[1].parameter("queue_bytes"), 64U);
  EXPECT_LT(measured.size(), 60U);  // there are 1458 points

  // A start that no candidate has, and a start that is not possible.
  packed.start = {3, 64, 16, 2};
  EXPECT_THROW(tune({{packed}, {}}, seconds, rules), usage_error);
  packed.start = {4, 64, 16};
  EXPECT_THROW(tune({{packed}, {}}, seconds, rules), usage_error);
  packed.start = {4, 64, 16, 2};
  const tune_result refused = tune(
      {{{"bulk-copy", {}, true, {}}, packed}, {}},
      [](const tune_candidate& c, std::uint32_t) {
        if (c.mechanism == "packed") throw usage_error("it has no room");
        return std::vector{1.0};
      },
      rules);
  EXPECT_EQ(refused.pick, 0U);
}

}  // namespace
}  // namespace interlace::search_tests
