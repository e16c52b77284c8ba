// Which optimisation a workload's remote loads get (DualOpt, PACT 2022, section 4.3 and Fig. 11):
// coalescing where lines are little used and seldom hit, caching where they are used or hit,
// neither where few accesses are remote.
//
// Behind a warm-up the engine watches what arrives at the L1 caches until it has seen enough remote
// loads, and decides: once, as in the paper, or again by every further window, for programs whose
// loads change from one phase to the next. The paper counts remote accesses; but a phase of stores
// alone fills such a window without a word on the locality of loads, which is what is decided
// about. Of a workload that has too few remote accesses, it knows that as soon as a window of them
// would be too few.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/engine/event_queue.hpp"

namespace interlace::sim {

enum class optimisation : std::uint8_t {
  leave,     // local-dominated
  coalesce,  // cache-insensitive
  cache,     // cache-friendly
};

struct decision_thresholds {
  double remote = 0.02;  // remote accesses of all
  double block = 0.2;    // pieces of a line that a remote load uses, of all its pieces
  double hit = 0.4;      // L1 hits of remote loads
};

// Throws usage_error, which names the key, for one outside of 0 to 1.
void check(const decision_thresholds& thresholds);

// What suits loads that use this part of a line and hit so often, if enough of them are remote.
optimisation choose(const decision_thresholds& thresholds, double block_utilisation,
                    double hit_rate);

class decision_engine {
 public:
  struct settings {
    decision_thresholds thresholds{};
    std::uint64_t warm_up = 0;         // accesses that are not counted
    std::uint64_t monitored = 20'000;  // remote loads before it decides
    std::uint32_t agreeing = 0;        // windows in a row that change its mind; 0: nothing does
  };
  // What it decided, by what, and when.
  struct decision {
    optimisation choice = optimisation::leave;
    picoseconds when = 0;
    std::uint64_t accesses = 0;  // behind the warm-up
    std::uint64_t remote = 0;
    std::uint64_t loads = 0;  // of them
    double remote_ratio = 0;
    double block_utilisation = 0;
    double hit_rate = 0;  // of the decision before, if no load looked into an L1
  };

  // Throws usage_error for thresholds that check refuses and for a window of 0.
  explicit decision_engine(const settings& s);

  // An access that arrives at an L1.
  void local(picoseconds now);
  // A remote load of `used` pieces of a line of `pieces`, and whether the L1 has it, if it looked
  // there; a remote store counts for the ratio alone.
  void remote_load(picoseconds now, std::uint32_t used, std::uint32_t pieces,
                   std::optional<bool> hit);
  void remote_store(picoseconds now);

  std::uint64_t windows() const { return windows_; }  // that were closed
  bool watches() const { return decisions_.empty() || settings_.agreeing != 0; }
  // In their order; each is of another choice than the one before, and holds until the next.
  const std::vector<decision>& decisions() const { return decisions_; }
  // What it would decide by what it has seen so far; for the end of a run that was too short.
  decision now(picoseconds when) const;

 private:
  bool counts();
  void look(picoseconds when);
  void close(picoseconds when);

  settings settings_;
  std::uint64_t skipped_ = 0;
  std::uint64_t accesses_ = 0;
  std::uint64_t remote_ = 0;
  std::uint64_t loads_ = 0;
  std::uint64_t looked_ = 0;  // into an L1, of the loads
  std::uint64_t hits_ = 0;
  double used_ = 0;  // sum of parts of lines
  std::vector<decision> decisions_;
  std::uint64_t windows_ = 0;
  optimisation other_ = optimisation::leave;  // what the last windows would rather have
  std::uint32_t agreed_ = 0;                  // so many of them, in a row
};

}  // namespace interlace::sim
