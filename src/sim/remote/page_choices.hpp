// Chooses an optimisation for each page, by the locality of the remote loads of that page. A choice
// for each page helps programs in which coalescing suits some arrays and caching suits other
// arrays. DualOpt's paper does not choose by page. This class applies the paper's decision rule
// (decision_engine.hpp) to each page. The loads of a page are handled in the plain way, as for
// `direct`, until enough remote loads have touched the page. At that time the choice is made. It
// holds until the end of the run.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/remote/decision_engine.hpp"

namespace interlace::sim {

class page_choices {
 public:
  // Pages have `page_bytes` bytes and begin at `first_address`. A page's choice is made after
  // `loads` remote loads. Throws usage_error if `loads` is 0.
  page_choices(const decision_thresholds& thresholds, std::uint32_t loads,
               std::uint64_t first_address, std::uint64_t page_bytes);

  // Notes a remote load that uses `used` of the line's `pieces` pieces. `hit` says whether the L1
  // has the line.
  void remote_load(std::uint64_t line, std::uint32_t used, std::uint32_t pieces, bool hit);

  // The choice for the page of a line. There is no value if too few loads have touched the page, or
  // if the line is in no page of unified memory.
  std::optional<optimisation> of(std::uint64_t line) const {
    const std::uint64_t page = page_of(line);
    if (page >= pages_.size() || pages_[page].loads < loads_) return std::nullopt;
    return pages_[page].choice;
  }

  // The number of pages for which this optimisation was chosen.
  std::uint64_t count(optimisation choice) const;

 private:
  struct seen {
    optimisation choice = optimisation::leave;
    std::uint32_t loads = 0;
    std::uint32_t hits = 0;
    std::uint32_t used = 0;  // number of pieces that the loads used
  };
  std::uint64_t page_of(std::uint64_t line) const { return (line - first_address_) / page_bytes_; }

  decision_thresholds thresholds_;
  std::uint32_t loads_;
  std::uint64_t first_address_;
  std::uint64_t page_bytes_;
  std::vector<seen> pages_;
};

}  // namespace interlace::sim
