// The block profile of the machine.
#pragma once

#include <functional>
#include <string>

#include "cuda/transfer/driver_table.hpp"
#include "plan/block_choice.hpp"

namespace interlace::cuda {

// The times of the ways on the GPU of the current context. They come from the profile that
// `interlace tune blocks` wrote for this model, or otherwise from an H200. If a profile cannot be
// used, `report`, which may be empty, receives the reason.
plan::block_costs block_costs_here(const driver_table& driver,
                                   const std::function<void(const std::string&)>& report);

}  // namespace interlace::cuda
