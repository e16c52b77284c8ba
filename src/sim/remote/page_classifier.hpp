// Classifies pages of unified memory by the GPUs that recently accessed them (Griffin, HPCA 2020:
// dynamic page classification). A rate is a number of accesses in a counting period. Older periods
// have less weight.
#pragma once

#include <cstdint>
#include <vector>

#include "interlace/machine/machine.hpp"

namespace interlace::sim {

enum class page_class : std::uint8_t {
  out_of_interest,   // hardly accessed
  streaming,         // accessed for a while, but not since the last classification
  mostly_dedicated,  // one GPU accesses the page much more often than any other GPU
  shared,            // several GPUs access the page about equally often
  owner_shifting,    // another GPU begins to access the page more often than the page's home does
};

struct page_access {
  std::uint64_t page = 0;
  std::uint32_t count = 0;
};

class page_classifier {
 public:
  struct result {
    page_class kind = page_class::out_of_interest;
    std::uint32_t gpu = 0;  // the GPU that accesses the page most often
  };

  page_classifier(const machine::griffin& rules, std::uint32_t gpus) : rules_(rules), gpus_(gpus) {}

  // Adds the counts of a GPU in counting period number `period`. The periods of one GPU must not
  // decrease from call to call. Appends to `seen` the pages that no GPU had counted since their
  // last classification.
  void count(std::uint32_t gpu, std::uint64_t period, const std::vector<page_access>& counted,
             std::vector<std::uint64_t>& seen);

  // Classifies a page whose home is `home`, at the time of `period`. No later period may have been
  // counted before.
  result classify(std::uint64_t page, std::uint32_t home, std::uint64_t period);

  // A GPU's number of accesses to the page per period, as a weighted mean of the periods so far.
  double rate(std::uint64_t page, std::uint32_t gpu, std::uint64_t period) const;

 private:
  struct counter {
    double rate = 0;           // rate at the end of `period`
    std::uint64_t period = 0;  // period of the last count
    double before = 0;         // rate at the last classification
  };
  std::size_t at(std::uint64_t page, std::uint32_t gpu) const {
    return static_cast<std::size_t>(page * gpus_ + gpu);
  }

  machine::griffin rules_;
  std::uint32_t gpus_;
  std::vector<counter> counters_;  // [page][GPU]
  // for each page, whether it was counted since its last classification
  std::vector<std::uint8_t> seen_;
};

}  // namespace interlace::sim
