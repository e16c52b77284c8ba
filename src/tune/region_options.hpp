#pragma once

#include "interlace/tune.hpp"
#include "kernel/region.hpp"

namespace interlace {

// The options of a region that moves as the candidate says; all others as they are.
kernel::region_options with_candidate(const tune_candidate& candidate,
                                      kernel::region_options options);

}  // namespace interlace
