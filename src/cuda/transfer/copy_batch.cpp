#include "cuda/transfer/copy_batch.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "interlace/base/errors.hpp"

namespace interlace::cuda {

void refuse_overlaps(std::span<const batch_part> copies) {
  struct range {
    device_address begin = 0;
    device_address end = 0;
    std::size_t copy = 0;
    bool written = false;
  };
  std::vector<range> ranges;
  for (std::size_t at = 0; at < copies.size(); ++at) {
    const batch_part& one = copies[at];
    if (one.bytes == 0) continue;
    if (std::max(one.from, one.to) + one.bytes < one.bytes)
      throw usage_error("copy " + std::to_string(at) + " of a batch has " +
                        std::to_string(one.bytes) + " bytes, which reach past the last address");
    ranges.push_back(
        {.begin = one.from, .end = one.from + one.bytes, .copy = at, .written = false});
    ranges.push_back({.begin = one.to, .end = one.to + one.bytes, .copy = at, .written = true});
  }
  std::sort(ranges.begin(), ranges.end(),
            [](const range& one, const range& other) { return one.begin < other.begin; });
  range last;          // range with the greatest end so far
  range last_written;  // written range with the greatest end so far
  for (const range& one : ranges) {
    const range& earlier = one.written ? last : last_written;
    if (one.begin < earlier.end)
      throw usage_error(earlier.copy == one.copy
                            ? "source and destination of copy " + std::to_string(one.copy) +
                                  " of a batch overlap; copy through a third buffer"
                            : "copies " + std::to_string(std::min(one.copy, earlier.copy)) +
                                  " and " + std::to_string(std::max(one.copy, earlier.copy)) +
                                  " of a batch overlap: one of them writes bytes that the other "
                                  "one reads or writes");
    if (one.end > last.end) last = one;
    if (one.written && one.end > last_written.end) last_written = one;
  }
}

}  // namespace interlace::cuda
