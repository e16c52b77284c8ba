// Which GPU a page of unified memory belongs to, by what GPUs access lately (Griffin, HPCA 2020:
// dynamic page classification). Rates are accesses a counting period, old periods weigh less and
// less.
#pragma once

#include <cstdint>
#include <vector>

#include "machine/machine.hpp"

namespace interlace::sim {

enum class page_class : std::uint8_t {
  out_of_interest,   // hardly accessed
  streaming,         // accessed for a while, and not since the last look
  mostly_dedicated,  // one GPU accesses it much more often than any other
  shared,            // several do about as often
  owner_shifting,    // another GPU takes over from the one that has it
};

struct page_access {
  std::uint64_t page = 0;
  std::uint32_t count = 0;
};

class page_classifier {
 public:
  struct result {
    page_class kind = page_class::out_of_interest;
    std::uint32_t gpu = 0;  // that accesses it most often
  };

  page_classifier(const machine::griffin& rules, std::uint32_t gpus) : rules_(rules), gpus_(gpus) {}

  // GPU `gpu` has counted this in the counting period number `period`, which does not fall for it.
  // Pages that nobody has counted since the last look at them are added to `seen`.
  void count(std::uint32_t gpu, std::uint64_t period, const std::vector<page_access>& counted,
             std::vector<std::uint64_t>& seen);

  // A look at the page that `home` has, as it is in that period, which is none before one that was
  // counted.
  result classify(std::uint64_t page, std::uint32_t home, std::uint64_t period);

  // Accesses a period.
  double rate(std::uint64_t page, std::uint32_t gpu, std::uint64_t period) const;

 private:
  struct counter {
    double rate = 0;           // at the period below
    std::uint64_t period = 0;  // of the last count
    double before = 0;         // at the last look
  };
  std::size_t at(std::uint64_t page, std::uint32_t gpu) const {
    return static_cast<std::size_t>(page * gpus_ + gpu);
  }

  machine::griffin rules_;
  std::uint32_t gpus_;
  std::vector<counter> counters_;   // [page][GPU]
  std::vector<std::uint8_t> seen_;  // by page: since the last look
};

}  // namespace interlace::sim
