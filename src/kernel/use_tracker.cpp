#include "interlace/kernel/use_tracker.hpp"

#include <utility>

namespace interlace::kernel {

use_tracker::use_tracker(std::uint32_t devices, std::uint64_t elements,
                         std::vector<std::uint64_t> boundaries)
    : boundaries_(std::move(boundaries)), written_(elements), readers_(devices) {
  for (reader& r : readers_) r.stamps.assign(elements, 0);
}

}  // namespace interlace::kernel
