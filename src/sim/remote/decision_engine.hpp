// Chooses the optimisation for a workload's remote loads (DualOpt, PACT 2022, section 4.3 and Fig.
// 11):
//
//   none         if few accesses are remote
//   coalescing   if remote loads use little of a line and seldom hit
//   caching      if remote loads use much of a line or hit often
//
// After a warm-up the engine watches the accesses at the L1 caches. It decides once it has seen a
// window of remote loads. The engine of the paper decides once. This engine can also decide again
// after every further window, for programs whose loads change from phase to phase. The paper's
// window counts all remote accesses. A window here counts only remote loads, because a phase of
// stores would fill a window without showing the locality of loads. If even a complete window could
// no longer make the fraction of remote accesses large enough, the engine decides at once.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/engine/event_queue.hpp"

namespace interlace::sim {

enum class optimisation : std::uint8_t {
  leave,     // most accesses are local
  coalesce,  // remote loads that would not profit from a cache
  cache,     // remote loads that profit from a cache
};

struct decision_thresholds {
  double remote = 0.02;  // threshold of the fraction of accesses that are remote
  // threshold of the fraction of pieces of a line that the remote loads use on average
  double block = 0.2;
  double hit = 0.4;  // threshold of the L1 hit rate of remote loads
};

// Throws usage_error if a threshold is not between 0 and 1. The error names the threshold's key.
void check(const decision_thresholds& thresholds);

// The choice for loads with this block utilisation and this hit rate. The function assumes that
// enough accesses are remote.
optimisation choose(const decision_thresholds& thresholds, double block_utilisation,
                    double hit_rate);

class decision_engine {
 public:
  struct settings {
    decision_thresholds thresholds{};
    std::uint64_t warm_up = 0;         // number of accesses at the start that are ignored
    std::uint64_t monitored = 20'000;  // number of remote loads in a window
    // number of agreeing windows in a row that change a decision; with 0 the first decision is
    // final
    std::uint32_t agreeing = 0;
  };
  // A decision, the measurements that led to it, and its time.
  struct decision {
    optimisation choice = optimisation::leave;
    picoseconds when = 0;
    std::uint64_t accesses = 0;  // accesses after the warm-up
    std::uint64_t remote = 0;
    std::uint64_t loads = 0;  // remote loads among these accesses
    double remote_ratio = 0;
    double block_utilisation = 0;
    // The L1 hit rate. If no load looked up an L1, this is the rate of the previous decision.
    double hit_rate = 0;
  };

  // Throws usage_error if check() refuses the thresholds, or if the window is 0.
  explicit decision_engine(const settings& s);

  // Notes a local access at an L1.
  void local(picoseconds now);
  // Notes a remote load that uses `used` of the line's `pieces` pieces. If the load looked up the
  // L1, `hit` says whether the L1 has the line. A remote store counts only for the share of remote
  // accesses.
  void remote_load(picoseconds now, std::uint32_t used, std::uint32_t pieces,
                   std::optional<bool> hit);
  void remote_store(picoseconds now);

  std::uint64_t windows() const { return windows_; }  // the number of complete windows
  bool watches() const { return decisions_.empty() || settings_.agreeing != 0; }
  // The decisions in order. Each decision differs from the previous decision, and holds until the
  // next decision.
  const std::vector<decision>& decisions() const { return decisions_; }
  // The decision that the engine would make from all accesses so far. This function is for the end
  // of a run that was too short for a window.
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
  std::uint64_t looked_ = 0;  // number of loads that looked up an L1
  std::uint64_t hits_ = 0;
  double used_ = 0;  // sum over the loads of the fraction of the line that a load used
  std::vector<decision> decisions_;
  std::uint64_t windows_ = 0;
  // The choice of the last windows, if it differs from the decision.
  optimisation other_ = optimisation::leave;
  std::uint32_t agreed_ = 0;  // number of windows in a row that chose `other_`
};

}  // namespace interlace::sim
