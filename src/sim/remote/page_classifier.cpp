#include "sim/remote/page_classifier.hpp"

#include <algorithm>
#include <cmath>

namespace interlace::sim {

void page_classifier::count(std::uint32_t gpu, std::uint64_t period,
                            const std::vector<page_access>& counted,
                            std::vector<std::uint64_t>& seen) {
  for (const page_access& a : counted) {
    if (a.page >= seen_.size()) {
      seen_.resize(a.page + 1, 0);
      counters_.resize(seen_.size() * gpus_);
    }
    counter& c = counters_[at(a.page, gpu)];
    c.rate = rate(a.page, gpu, period) + rules_.newest_weight * a.count;
    c.period = period;
    if (seen_[a.page] == 0) seen.push_back(a.page);
    seen_[a.page] = 1;
  }
}

double page_classifier::rate(std::uint64_t page, std::uint32_t gpu, std::uint64_t period) const {
  if (page >= seen_.size()) return 0;
  const counter& c = counters_[at(page, gpu)];
  return c.rate * std::pow(1 - rules_.newest_weight, static_cast<double>(period - c.period));
}

page_classifier::result page_classifier::classify(std::uint64_t page, std::uint32_t home,
                                                  std::uint64_t period) {
  result found;
  if (page >= seen_.size()) return found;
  double most = -1;
  double second = 0;
  double all = 0;
  for (std::uint32_t g = 0; g < gpus_; ++g) {
    const double r = rate(page, g, period);
    all += r;
    if (r > most) {
      second = std::max(0.0, most);
      most = r;
      found.gpu = g;
    } else {
      second = std::max(second, r);
    }
  }
  const auto grows = [&](std::uint32_t g) {
    return rate(page, g, period) > counters_[at(page, g)].before;
  };
  if (all < rules_.least_rate) {
    found.kind = page_class::out_of_interest;
  } else if (seen_[page] == 0) {
    found.kind = page_class::streaming;
  } else if (most >= rules_.dedicated_factor * second) {
    found.kind = page_class::mostly_dedicated;
  } else if (most > rules_.shared_factor * second && found.gpu != home && grows(found.gpu) &&
             !grows(home)) {
    found.kind = page_class::owner_shifting;
  } else {
    found.kind = page_class::shared;
  }
  for (std::uint32_t g = 0; g < gpus_; ++g) counters_[at(page, g)].before = rate(page, g, period);
  seen_[page] = 0;
  return found;
}

}  // namespace interlace::sim
