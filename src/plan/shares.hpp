// Computes the part of a message that each path carries. The computation considers the resources
// that paths share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "plan/plan.hpp"
#include "plan/resources.hpp"

namespace interlace::plan {

// The costs of a path in addition to the time in which the path moves its bytes.
struct overheads {
  double setup_s = 0;   // time to set up one copy on the engine
  double launch_s = 0;  // time to launch one copy on the host
  // time from a copy's end to the start of work in another stream that waits for the copy
  double event_s = 0;
};

// The shares with which the messages of the plan end earliest. Staged parts are cut into `chunks`
// chunks, and only the paths in `usable` are used.
struct balance {
  double time_s = std::numeric_limits<double>::infinity();
  std::vector<double> bytes;  // for each path, the number of bytes that it carries
  std::vector<double> load;   // for each resource, the used part of its capacity in that time
};

// Minimises the time T under the following conditions, where b is the number of bytes of a path:
// - The paths of each message carry the whole message.
// - For each path, its fill time plus b divided by the rate of its slowest leg is at most T. (The
//   fill time is the setup and latency of every leg, and the chunks of all legs except the
//   slowest.)
// - For each resource, the bytes of all paths that use it are at most T times the capacity that
//   traffic leaves. The bytes of direct paths are at most T times the fair share.
// - For the engines of each GPU, the times for which copies hold an engine are at most T times the
//   number of engines.
//
// For a given T, this is a linear program for the largest part of all messages that can be moved.
// The part grows with T, so Newton's method finds T. If several shares are equally fast, the
// function takes the shares with the fewest bytes on staged paths. It drops staged paths that gain
// less than 0.5 %. There is no value if the usable paths cannot carry a message.
std::optional<balance> balance_shares(const plan& made, const resources& shared,
                                      const overheads& costs, std::uint32_t chunks,
                                      const std::vector<bool>& usable);

// The fill time of a path, in which the path does not move bytes at its full rate. balance_shares
// subtracts it from T.
double fill_s(const path& way, const overheads& costs, std::uint32_t chunks);

}  // namespace interlace::plan
