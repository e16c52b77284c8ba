// Classifies pages of unified memory by the GPUs that recently accessed them (Griffin, HPCA 2020:
// dynamic page classification). Rates are accesses per counting period; old periods weigh less and
// less.
#pragma once

#include <cstdint>
#include <vector>

#include "interlace/machine/machine.hpp"

namespace interlace::sim {

enum class page_class : std::uint8_t {
  out_of_interest,   // hardly accessed
  streaming,         // accessed for a while, but not since the last classification
  mostly_dedicated,  // one GPU accesses it much more often than any other
  shared,            // several GPUs access it about equally often
  owner_shifting,    // another GPU takes over from the page's home
};

struct page_access {
  std::uint64_t page = 0;
  std::uint32_t count = 0;
};

class page_classifier {
 public:
  struct result {
    page_class kind = page_class::out_of_interest;
    std::uint32_t gpu = 0;  // the GPU that accesses it most often
  };

  page_classifier(const machine::griffin& rules, std::uint32_t gpus) : rules_(rules), gpus_(gpus) {}

  // Adds a GPU's counts of counting period number `period`. A GPU's periods must not decrease.
  // Appends to `seen` the pages that nobody has counted since their last classification.
  void count(std::uint32_t gpu, std::uint64_t period, const std::vector<page_access>& counted,
             std::vector<std::uint64_t>& seen);

  // Classifies a page whose home is `home`, at the time of `period`. The period must not be before
  // one that was counted.
  result classify(std::uint64_t page, std::uint32_t home, std::uint64_t period);

  // Accesses per period.
  double rate(std::uint64_t page, std::uint32_t gpu, std::uint64_t period) const;

 private:
  struct counter {
    double rate = 0;           // as of the period below
    std::uint64_t period = 0;  // of the last count
    double before = 0;         // at the last classification
  };
  std::size_t at(std::uint64_t page, std::uint32_t gpu) const {
    return static_cast<std::size_t>(page * gpus_ + gpu);
  }

  machine::griffin rules_;
  std::uint32_t gpus_;
  std::vector<counter> counters_;   // [page][GPU]
  std::vector<std::uint8_t> seen_;  // by page: counted since the last classification
};

}  // namespace interlace::sim
