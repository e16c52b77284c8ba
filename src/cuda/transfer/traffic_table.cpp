#include "cuda/transfer/traffic_table.hpp"

#include <algorithm>
#include <utility>

namespace interlace::cuda {
namespace {

constexpr std::size_t most_entries = 256;  // more are not looked at

bool before(machine::endpoint one, machine::endpoint other) {
  return std::pair(one.kind, one.index) < std::pair(other.kind, other.index);
}

bool stops_before(const plan::traffic& one, const plan::traffic& other) {
  return std::lexicographical_compare(one.stops.begin(), one.stops.end(), other.stops.begin(),
                                      other.stops.end(), before);
}

bool same_stops(const plan::traffic& one, const plan::traffic& other) {
  return one.stops == other.stops;
}

}  // namespace

void traffic_table::add(machine::endpoint from, machine::endpoint to,
                        const std::vector<plan::traffic>& paths, shared_completion end) {
  const std::lock_guard lock(mutex_);
  std::erase_if(entries_, [&](const entry& one) {  // the stream's last message ends last
    return end->of(one.end->stream()) && one.from == from && one.to == to;
  });
  if (entries_.size() < most_entries) entries_.push_back({from, to, paths, std::move(end)});
}

std::vector<plan::traffic> traffic_table::beside(machine::endpoint from, machine::endpoint to,
                                                 const stream_identity& stream) {
  std::vector<plan::traffic> found;
  const std::lock_guard lock(mutex_);
  std::erase_if(entries_, [](const entry& one) { return one.end->done(); });
  for (const entry& one : entries_) {
    if (one.end->of(stream)) continue;
    if (one.from == from && one.to == to) continue;
    found.insert(found.end(), one.paths.begin(), one.paths.end());
  }
  std::sort(found.begin(), found.end(), stops_before);
  found.erase(std::unique(found.begin(), found.end(), same_stops), found.end());
  return found;
}

}  // namespace interlace::cuda
