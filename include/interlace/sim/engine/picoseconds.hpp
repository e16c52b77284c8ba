// Simulated time.
#pragma once

#include <cstdint>

namespace interlace::sim {

using picoseconds = std::uint64_t;

}  // namespace interlace::sim
