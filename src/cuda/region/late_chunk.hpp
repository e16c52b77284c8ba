// Finds the chunk that a device of a region waits for, from the counters of its devices.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>

namespace interlace::cuda {

// The counters of a device's chunks.
struct counted_chunks {
  bool running = false;             // whether an epoch is known to run
  unsigned long long launches = 0;  // the exchanges that have found all chunks of their epoch ready
  std::span<const unsigned long long> counters;  // over all epochs; empty if they are not known
  std::span<const unsigned long long> targets;   // the targets of an epoch
};

struct late_count {
  std::size_t device = 0;  // its place among the devices
  std::size_t chunk = 0;
  unsigned long long seen = 0;
  unsigned long long target = 0;
};

// A device whose exchange has counted an epoch more than another device waits for that device, and
// for none of its own chunks.
inline std::optional<late_count> find_late_chunk(std::span<const counted_chunks> devices) {
  std::optional<unsigned long long> fewest;
  for (const counted_chunks& one : devices)
    if (!one.counters.empty()) fewest = fewest ? std::min(*fewest, one.launches) : one.launches;
  for (std::size_t d = 0; d < devices.size(); ++d) {
    const counted_chunks& one = devices[d];
    if (one.counters.empty() || !one.running || one.launches > *fewest) continue;
    for (std::size_t c = 0; c < one.targets.size(); ++c) {
      const unsigned long long seen = one.counters[c] - one.launches * one.targets[c];
      if (seen < one.targets[c]) return late_count{d, c, seen, one.targets[c]};
    }
  }
  return std::nullopt;
}

}  // namespace interlace::cuda
