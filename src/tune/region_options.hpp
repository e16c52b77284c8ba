#pragma once

#include "interlace/kernel/region.hpp"
#include "interlace/tune.hpp"

namespace interlace {

// Returns `options` with the mechanism and the parameters of the candidate. All other options stay
// as they are.
kernel::region_options with_candidate(const tune_candidate& candidate,
                                      kernel::region_options options);

}  // namespace interlace
