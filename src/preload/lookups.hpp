// Lookups of the driver's functions, as programs see them.
#pragma once

namespace interlace::preload {

bool within_this_library(const void* address);

}  // namespace interlace::preload
