// Chooses the optimisation for a workload's remote loads (DualOpt, PACT 2022, section 4.3 and Fig.
// 11):
//
//   none         if few accesses are remote
//   coalescing   if remote loads use little of a line and seldom hit
//   caching      if remote loads use much of a line or hit often
//
// After a warm-up the engine watches the accesses at the L1 caches. Once it has seen a window of
// remote loads, it decides. In the paper it decides once; here it can also decide again after every
// further window, for programs whose loads change from phase to phase. The paper's window counts
// remote accesses. Here a window counts remote loads, because a phase of stores would fill a window
// without showing the locality of loads. The engine also decides as soon as a window can no longer
// have enough remote accesses.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/engine/event_queue.hpp"

namespace interlace::sim {

enum class optimisation : std::uint8_t {
  leave,     // most accesses are local
  coalesce,  // remote loads that a cache would not help
  cache,     // remote loads that a cache helps
};

struct decision_thresholds {
  double remote = 0.02;  // threshold of the fraction of accesses that are remote
  double block = 0.2;    // threshold of the fraction of a line's pieces that a remote load uses
  double hit = 0.4;      // threshold of the L1 hit rate of remote loads
};

// Throws usage_error, which names the key, if a threshold is not between 0 and 1.
void check(const decision_thresholds& thresholds);

// The choice for loads with this block utilisation and hit rate, if enough accesses are remote.
optimisation choose(const decision_thresholds& thresholds, double block_utilisation,
                    double hit_rate);

class decision_engine {
 public:
  struct settings {
    decision_thresholds thresholds{};
    std::uint64_t warm_up = 0;         // number of accesses that are ignored at first
    std::uint64_t monitored = 20'000;  // number of remote loads in a window
    std::uint32_t agreeing = 0;  // this many agreeing windows in a row change a decision; 0: it is
                                 // final
  };
  // A decision with its measurements and its time.
  struct decision {
    optimisation choice = optimisation::leave;
    picoseconds when = 0;
    std::uint64_t accesses = 0;  // accesses after the warm-up
    std::uint64_t remote = 0;
    std::uint64_t loads = 0;  // remote loads among them
    double remote_ratio = 0;
    double block_utilisation = 0;
    // The L1 hit rate; if no load looked into an L1, that of the previous decision.
    double hit_rate = 0;
  };

  // Throws usage_error if check() refuses the thresholds, or if the window is 0.
  explicit decision_engine(const settings& s);

  // Notes a local access at an L1.
  void local(picoseconds now);
  // Notes a remote load that uses `used` of the line's `pieces` pieces. If the load looked into the
  // L1, `hit` says whether the L1 has the line. A remote store counts only for the ratio of remote
  // accesses.
  void remote_load(picoseconds now, std::uint32_t used, std::uint32_t pieces,
                   std::optional<bool> hit);
  void remote_store(picoseconds now);

  std::uint64_t windows() const { return windows_; }  // the number of complete windows
  bool watches() const { return decisions_.empty() || settings_.agreeing != 0; }
  // The decisions in order. Each decision differs from the one before, and holds until the next
  // one.
  const std::vector<decision>& decisions() const { return decisions_; }
  // The decision that the engine would make from all accesses so far, for the end of a run that was
  // too short for a window.
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
  std::uint64_t looked_ = 0;  // loads that looked into an L1
  std::uint64_t hits_ = 0;
  double used_ = 0;  // sum of the used fractions of lines
  std::vector<decision> decisions_;
  std::uint64_t windows_ = 0;
  // The choice of the last windows, if it differs from the decision.
  optimisation other_ = optimisation::leave;
  std::uint32_t agreed_ = 0;  // number of windows in a row that agreed on it
};

}  // namespace interlace::sim
