#include "sim/trace/statistics.hpp"

#include <algorithm>

namespace interlace::sim::trace {

void statistics::program(const step& s) {
  totals_.add(s);
  if (const auto* l = std::get_if<launch>(&s)) ++gpus_[l->gpu].launches;
  if (const auto* c = std::get_if<copy>(&s)) {
    if (c->from == host || c->to == host) ++host_copies_;
    copied_bytes_ += c->bytes;
  }
}

void statistics::begin_block(std::uint32_t gpu, std::uint64_t /*index*/) {
  ++totals_.blocks;
  ++gpus_[gpu].blocks;
}

void statistics::add(std::uint32_t gpu, std::uint32_t /*warp*/, const instruction& i) {
  totals_.add(i);
  if (!is_access(i.kind)) return;
  const auto kind = static_cast<std::size_t>(i.kind);
  const auto lanes = static_cast<std::size_t>(__builtin_popcountll(i.lanes));
  ++widths_[{i.kind, i.bytes}];
  of_gpu& g = gpus_[gpu];
  bool elsewhere = false;
  for (std::size_t k = 0; k < lanes; ++k) {
    const std::uint32_t home = ranges_.home(i.addresses[k], i.bytes).value_or(gpu);
    matrix_[gpu * gpus_.size() + home] += i.bytes;
    (home == gpu ? g.own_bytes : g.remote_bytes)[kind] += i.bytes;
    elsewhere = elsewhere || home != gpu;
  }
  ++(elsewhere ? g.remote : g.own)[kind];
  add_locality(kind, i, gpu);
}

void statistics::add_locality(std::size_t kind, const instruction& i, std::uint32_t gpu) {
  std::array<std::uint64_t, max_lanes> sorted{};
  const auto lanes = static_cast<std::size_t>(__builtin_popcountll(i.lanes));
  std::copy_n(i.addresses, lanes, sorted.begin());
  const auto last = sorted.begin() + static_cast<std::ptrdiff_t>(lanes);
  if (!std::is_sorted(sorted.begin(), last)) std::sort(sorted.begin(), last);
  // for each unit size, the first unit that is not counted yet
  std::array<std::uint64_t, 3> next_unit{};
  for (std::size_t k = 0; k < lanes;) {
    // Finds a run of bytes without a gap.
    const std::uint64_t begin = sorted[k];
    std::uint64_t end = begin + i.bytes;
    for (++k; k < lanes && sorted[k] <= end; ++k) end = std::max(end, sorted[k] + i.bytes);
    distinct_[kind] += end - begin;
    for (std::size_t u = 0; u < units.size(); ++u) {
      const std::uint64_t first = std::max(begin / units[u], next_unit[u]);
      const std::uint64_t behind = (end - 1) / units[u] + 1;
      if (behind > first) touched_[kind][u] += behind - first;
      next_unit[u] = std::max(next_unit[u], behind);
    }
    if (i.kind != action::store || ranges_.home(begin, 1).value_or(gpu) == gpu) continue;
    constexpr std::uint64_t line = 128;
    for (std::uint64_t at = begin; at < end;) {
      const std::uint64_t stop = std::min(end, at / line * line + line);
      const std::uint64_t bytes = stop - at;
      std::size_t size = 0;
      while ((std::uint64_t{1} << size) < bytes) ++size;
      ++runs_[size];
      at = stop;
    }
  }
}

}  // namespace interlace::sim::trace
