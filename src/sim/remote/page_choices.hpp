// An optimisation for each page, by the locality of its own remote loads: for programs of which
// some arrays would have their replies coalesced and others cached. Not of DualOpt's paper, whose
// rule (decision_engine.hpp) decides here, too. A page is treated as under `direct` until so many
// remote loads have touched it, and then one way to the end.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/remote/decision_engine.hpp"

namespace interlace::sim {

class page_choices {
 public:
  // Pages of `page_bytes` from `first_address` on. Throws usage_error for `loads` of 0.
  page_choices(const decision_thresholds& thresholds, std::uint32_t loads,
               std::uint64_t first_address, std::uint64_t page_bytes);

  // A remote load of `used` pieces of the line of `pieces`, and whether the L1 has it.
  void remote_load(std::uint64_t line, std::uint32_t used, std::uint32_t pieces, bool hit);

  // Nothing where too few loads have been seen, or it is no page of these.
  std::optional<optimisation> of(std::uint64_t line) const {
    const std::uint64_t page = page_of(line);
    if (page >= pages_.size() || pages_[page].loads < loads_) return std::nullopt;
    return pages_[page].choice;
  }

  // Pages for which it was chosen.
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
