// Chooses an optimisation for each page, by the locality of the page's own remote loads. This helps
// programs in which coalescing suits some arrays and caching suits others. DualOpt's paper does not
// choose by page; this class uses the paper's decision rule (decision_engine.hpp). Loads of a page
// are handled as under `direct` until enough remote loads have touched the page. The choice then
// holds to the end.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/remote/decision_engine.hpp"

namespace interlace::sim {

class page_choices {
 public:
  // Pages have `page_bytes` and begin at `first_address`. Throws usage_error if `loads` is 0.
  page_choices(const decision_thresholds& thresholds, std::uint32_t loads,
               std::uint64_t first_address, std::uint64_t page_bytes);

  // Notes a remote load that uses `used` of the line's `pieces` pieces. `hit` says whether the L1
  // has the line.
  void remote_load(std::uint64_t line, std::uint32_t used, std::uint32_t pieces, bool hit);

  // The choice for the page of a line. No value if too few loads have touched the page, or if the
  // line is in no page of unified memory.
  std::optional<optimisation> of(std::uint64_t line) const {
    const std::uint64_t page = page_of(line);
    if (page >= pages_.size() || pages_[page].loads < loads_) return std::nullopt;
    return pages_[page].choice;
  }

  // The number of pages with this choice.
  std::uint64_t count(optimisation choice) const;

 private:
  struct seen {
    optimisation choice = optimisation::leave;
    std::uint32_t loads = 0;
    std::uint32_t hits = 0;
    std::uint32_t used = 0;  // pieces
  };
  std::uint64_t page_of(std::uint64_t line) const { return (line - first_address_) / page_bytes_; }

  decision_thresholds thresholds_;
  std::uint32_t loads_;
  std::uint64_t first_address_;
  std::uint64_t page_bytes_;
  std::vector<seen> pages_;
};

}  // namespace interlace::sim
