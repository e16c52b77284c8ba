// How much of a message each path carries, from the resources that paths share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "plan/plan.hpp"
#include "plan/resources.hpp"

namespace interlace::plan {

// What a path costs beside the time of its bytes.
struct overheads {
  double setup_s = 0;   // of one copy, on the engine
  double launch_s = 0;  // of one copy, on the host
  double event_s = 0;   // from a copy's end to the start of what waits for it in another stream
};

// The shares that end all messages of the plan earliest, when staged parts are cut into `chunks`
// and only paths in `usable` take part.
struct balance {
  double time_s = std::numeric_limits<double>::infinity();
  std::vector<double> bytes;  // by path
  std::vector<double> load;   // by resource: the part of its capacity that is used in that time
};

// Minimises the time T in which, with b the bytes of a path:
//   the paths of each message carry it whole;
//   each path: its fill (setup and latency of every leg, chunks of all legs but the slowest) and b
//     over the rate of its slowest leg are at most T;
//   each resource: the bytes of all paths that use it are at most T times what traffic leaves, or,
//     of direct paths, the fair part;
//   each GPU's engines: the times in which copies hold one are at most T times their number.
// For given T that is a linear program for the largest part of all messages that can be moved; the
// part grows with T, so T is found by Newton's method. Among equal shares those with least bytes on
// staged paths are taken, and staged paths that bring less than 0.5 % are dropped. Nothing if the
// usable paths cannot carry a message.
std::optional<balance> balance_shares(const plan& made, const resources& shared,
                                      const overheads& costs, std::uint32_t chunks,
                                      const std::vector<bool>& usable);

// The time of a path's first byte: what balance_shares takes from T before any byte.
double fill_s(const path& way, const overheads& costs, std::uint32_t chunks);

}  // namespace interlace::plan
