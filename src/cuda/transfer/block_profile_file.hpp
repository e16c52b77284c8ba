// The machine's profile for batches of blocks.
#pragma once

#include <functional>
#include <string>

#include "cuda/transfer/driver_table.hpp"
#include "plan/block_choice.hpp"

namespace interlace::cuda {

// The times of the ways on the GPU of the current context. They come from the profile that
// `interlace tune blocks` wrote for this model of GPU. If there is no profile, the function returns
// the times of an H200. If a profile cannot be used, `report` gets the reason. `report` may be
// empty.
plan::block_costs block_costs_here(const driver_table& driver,
                                   const std::function<void(const std::string&)>& report);

}  // namespace interlace::cuda
