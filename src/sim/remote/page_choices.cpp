#include "sim/remote/page_choices.hpp"

#include <algorithm>

#include "interlace/base/errors.hpp"

namespace interlace::sim {

page_choices::page_choices(const decision_thresholds& thresholds, std::uint32_t loads,
                           std::uint64_t first_address, std::uint64_t page_bytes)
    : thresholds_(thresholds),
      loads_(loads),
      first_address_(first_address),
      page_bytes_(page_bytes) {
  check(thresholds);
  if (loads == 0) throw usage_error("gpu.dualopt.page_loads is 0; give at least 1");
}

void page_choices::remote_load(std::uint64_t line, std::uint32_t used, std::uint32_t pieces,
                               bool hit) {
  if (line < first_address_) return;
  const std::uint64_t page = page_of(line);
  if (page >= pages_.size()) pages_.resize(page + 1);
  seen& p = pages_[page];
  if (p.loads >= loads_) return;
  ++p.loads;
  p.used += used;
  if (hit) ++p.hits;
  if (p.loads < loads_) return;
  const auto all = static_cast<double>(loads_);
  p.choice = choose(thresholds_, p.used / (all * pieces), p.hits / all);
}

std::uint64_t page_choices::count(optimisation choice) const {
  return static_cast<std::uint64_t>(std::ranges::count_if(
      pages_, [&](const seen& p) { return p.loads >= loads_ && p.choice == choice; }));
}

}  // namespace interlace::sim
