// Counts a GPU's accesses to each page of unified memory during a counting period (Griffin, HPCA
// 2020). The GPU reports these counts to the host.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "sim/remote/page_classifier.hpp"

namespace interlace::sim {

class access_counters {
 public:
  void access(std::uint64_t page) {
    if (page >= counts_.size()) counts_.resize(page + 1);
    if (counts_[page]++ == 0) touched_.push_back(page);
  }

  // Returns the counts of the most accessed pages (at most `most` pages) and sets all counts to 0.
  std::vector<page_access> take(std::size_t most) {
    std::vector<page_access> found;
    found.reserve(touched_.size());
    for (const std::uint64_t page : touched_)
      found.push_back({page, std::exchange(counts_[page], 0)});
    touched_.clear();
    std::sort(found.begin(), found.end(), [](const page_access& x, const page_access& y) {
      return x.count != y.count ? x.count > y.count : x.page < y.page;
    });
    if (found.size() > most) found.resize(most);
    return found;
  }

 private:
  std::vector<std::uint32_t> counts_;  // the index is the page
  std::vector<std::uint64_t> touched_;
};

}  // namespace interlace::sim
