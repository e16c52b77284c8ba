#include "interlace/kernel/use_tracker.hpp"

#include <utility>

namespace interlace::kernel {

use_tracker::use_tracker(std::uint32_t devices, std::uint64_t elements,
                         std::vector<std::uint64_t> boundaries)
    : boundaries_(std::move(boundaries)),
      written_(elements),
      read_(devices, std::vector<std::uint32_t>(elements, 0)) {}

}  // namespace interlace::kernel
