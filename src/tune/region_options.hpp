#pragma once

#include "interlace/kernel/region.hpp"
#include "interlace/tune.hpp"

namespace interlace {

// The options of a region that uses the candidate's mechanism and parameters. All other options
// stay the same.
kernel::region_options with_candidate(const tune_candidate& candidate,
                                      kernel::region_options options);

}  // namespace interlace
