// An instruction that waits for a page: for its translation, or for the right to use it.
#pragma once

#include <cstdint>

namespace interlace::sim {

struct page_waiter {
  std::uint32_t warp = 0;
  std::uint32_t instruction = 0;
};

}  // namespace interlace::sim
