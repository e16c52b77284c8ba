// Computes the part of a message that each path carries, from the resources that paths share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "plan/plan.hpp"
#include "plan/resources.hpp"

namespace interlace::plan {

// The costs of a path in addition to the time in which it moves its bytes.
struct overheads {
  double setup_s = 0;   // setup of one copy on the engine
  double launch_s = 0;  // launch of one copy on the host
  double event_s =
      0;  // time from a copy's end to the start of work in another stream that waits for it
};

// The shares with which all messages of the plan end earliest, if staged parts are cut into
// `chunks` chunks and only the paths in `usable` are used.
struct balance {
  double time_s = std::numeric_limits<double>::infinity();
  std::vector<double> bytes;  // one for each path
  std::vector<double> load;   // for each resource, the part of its capacity that is used in that
                              // time
};

// Minimises the time T in which, with b the bytes of a path:
//   the paths of each message carry the whole message;
//   for each path, its fill (setup and latency of every leg, chunks of all legs but the slowest)
//   plus
//     b over the rate of its slowest leg is at most T;
//   for each resource, the bytes of all paths that use it are at most T times the capacity that
//     traffic leaves; for direct paths, T times the fair share;
//   for the engines of each GPU, the times for which copies hold an engine are at most T times the
//     number of engines.
// For a given T, this is a linear program for the largest part of all messages that can be moved.
// The part grows with T, so T is found by Newton's method. If several shares are equally fast, the
// function takes those with the fewest bytes on staged paths. It drops staged paths that gain less
// than 0.5 %. Returns no value if the usable paths cannot carry a message.
std::optional<balance> balance_shares(const plan& made, const resources& shared,
                                      const overheads& costs, std::uint32_t chunks,
                                      const std::vector<bool>& usable);

// The fill time of a path, in which it does not move bytes at its full rate. balance_shares
// subtracts it from T.
double fill_s(const path& way, const overheads& costs, std::uint32_t chunks);

}  // namespace interlace::plan
