#include "sim/engine/crew.hpp"

#include <utility>

namespace interlace::sim {

crew::crew(std::uint32_t helpers, std::function<bool(std::uint32_t helper)> help)
    : help_(std::move(help)) {
  for (std::uint32_t k = 0; k < helpers; ++k) threads_.emplace_back([this, k] { run(k); });
}

crew::~crew() {
  ended_ = true;
  wake_sleeping();
}

void crew::wake_sleeping() {
  ++calls_;
  calls_.notify_all();
}

void crew::run(std::uint32_t helper) {
  std::uint32_t looked = 0;
  while (!ended_) {
    const std::uint32_t calls = calls_;
    if (help_(helper)) {
      looked = 0;
    } else if (++looked < looks) {
      pause_briefly();
    } else {
      looked = 0;
      ++sleeping_;
      // The helper looks for work once more before it sleeps. Work may have arrived while the
      // caller of wake() could not yet see that this helper sleeps.
      if (!help_(helper)) calls_.wait(calls);
      --sleeping_;
    }
  }
}

}  // namespace interlace::sim
