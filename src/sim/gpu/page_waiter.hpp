// An instruction that waits for a page. It waits for the page's translation, or for permission to
// use the page.
#pragma once

#include <cstdint>

namespace interlace::sim {

struct page_waiter {
  std::uint32_t warp = 0;
  std::uint32_t instruction = 0;
};

}  // namespace interlace::sim
