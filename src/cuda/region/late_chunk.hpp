// Finds the chunk for which a device of a region waits, from the counters of the region's devices.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>

namespace interlace::cuda {

// The counters of a device's chunks.
struct counted_chunks {
  bool running = false;  // whether an epoch is known to run
  // The number of exchanges that have found all chunks of their epoch ready.
  unsigned long long launches = 0;
  // The value of each chunk's counter, summed over all epochs. The list is empty if the values are
  // not known.
  std::span<const unsigned long long> counters;
  std::span<const unsigned long long> targets;  // targets of one epoch
};

struct late_count {
  std::size_t device = 0;  // index in the list `devices`
  std::size_t chunk = 0;
  unsigned long long seen = 0;
  unsigned long long target = 0;
};

// Returns the first chunk whose counter is below its target, among the devices whose epoch runs. If
// a device's exchange has counted more epochs than another device's exchange, the function leaves
// out the first device. That device waits for the other device, and not for its own chunks.
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
