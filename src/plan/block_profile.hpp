// The time of each way to move blocks, as measured on a machine. This is the profile that
// `interlace tune blocks` writes (python/interlace/tuning/block_tuning.py; docs/reference/json.md)
// and that batches of blocks use.
#pragma once

#include <string>

#include "plan/block_choice.hpp"

namespace interlace::plan {

// Returns the times of a profile. `rest` supplies what the profile lacks: a direction, a way for
// some size, or the thread blocks. `name` is the file's name, for errors. Throws usage_error if the
// text is not a profile.
block_costs read_block_profile(const std::string& text, const std::string& name,
                               const block_costs& rest);

}  // namespace interlace::plan
