#include "interlace/kernel/use_tracker.hpp"

#include <algorithm>
#include <utility>

namespace interlace::kernel {

use_tracker::use_tracker(std::uint32_t devices, std::uint64_t elements,
                         std::vector<std::uint64_t> boundaries)
    : boundaries_(std::move(boundaries)), written_(elements), readers_(devices) {
  for (reader& r : readers_) r.seen.resize((elements + 63) / 64);
  forget_reads();
}

void use_tracker::forget_reads() {
  for (std::size_t device = 0; device < readers_.size(); ++device) {
    std::vector<std::uint64_t>& seen = readers_[device].seen;
    std::fill(seen.begin(), seen.end(), 0);
    const std::uint64_t end = std::min<std::uint64_t>(boundaries_[device + 1], seen.size() * 64);
    for (std::uint64_t e = boundaries_[device]; e < end;) {
      if (e % 64 == 0 && end - e >= 64) {
        seen[e / 64] = ~std::uint64_t{0};
        e += 64;
      } else {
        seen[e / 64] |= std::uint64_t{1} << (e % 64);
        ++e;
      }
    }
  }
}

}  // namespace interlace::kernel
