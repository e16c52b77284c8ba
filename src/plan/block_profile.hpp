// The time of each way to move blocks, as measured on a machine. `interlace tune blocks` writes
// this profile (python/interlace/tuning/block_tuning.py; docs/reference/json.md), and batches of
// blocks use it.
#pragma once

#include <string>

#include "plan/block_choice.hpp"

namespace interlace::plan {

// Returns the times in a profile. A profile can lack a direction, a way for some size, or the
// number of thread blocks. `rest` supplies what is missing. `name` is the file's name, for errors.
// Throws usage_error if the text is not a profile.
block_costs read_block_profile(const std::string& text, const std::string& name,
                               const block_costs& rest);

}  // namespace interlace::plan
