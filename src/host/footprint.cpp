#include "interlace/host/footprint.hpp"

#include <algorithm>
#include <utility>

namespace interlace::host {

void footprint::add(const void* memory, std::uint64_t bytes) {
  if (bytes == 0) return;
  piece p;
  p.begin = reinterpret_cast<std::uintptr_t>(memory);
  p.end = p.begin + bytes;
  const std::uint64_t sectors = (bytes + kernel::sector_bytes - 1) / kernel::sector_bytes;
  p.loaded.resize((sectors + 63) / 64, 0);
  p.stored.resize((sectors + 63) / 64, 0);
  const auto at = std::upper_bound(pieces_.begin(), pieces_.end(), p.begin,
                                   [](std::uintptr_t a, const piece& q) { return a < q.begin; });
  pieces_.insert(at, std::move(p));
}

footprint::piece* footprint::search(std::uintptr_t at, std::uint32_t& known) {
  const auto next = std::upper_bound(pieces_.begin(), pieces_.end(), at,
                                     [](std::uintptr_t a, const piece& q) { return a < q.begin; });
  if (next == pieces_.begin()) return nullptr;
  const auto found = next - 1;
  if (at >= found->end) return nullptr;
  known = static_cast<std::uint32_t>(found - pieces_.begin());
  return &*found;
}

void footprint::take(kernel::launch_work& to) {
  to.loaded_bytes = kernel::sector_bytes * std::exchange(loaded_, 0);
  to.stored_bytes = kernel::sector_bytes * std::exchange(stored_, 0);
  to.touched_bytes = kernel::sector_bytes * std::exchange(touched_, 0);
  for (piece& p : pieces_) {
    if (!p.used) continue;
    std::fill(p.loaded.begin(), p.loaded.end(), 0);
    std::fill(p.stored.begin(), p.stored.end(), 0);
    p.used = false;
  }
}

}  // namespace interlace::host
