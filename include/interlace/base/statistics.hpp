// Statistics of samples, such as times of repetitions.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace interlace {

// A quantile of sorted values, with linear interpolation between neighbours. There must be at least
// one value. `part` is from 0 (the smallest value) to 1 (the largest).
inline double quantile(const std::vector<double>& sorted, double part) {
  const double place = part * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

// The median of values in any order. There must be at least one value.
inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return quantile(values, 0.5);
}

}  // namespace interlace
