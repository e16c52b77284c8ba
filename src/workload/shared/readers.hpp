// Regions whose elements go only to the devices that read them, as in programs that know which
// device needs which data. A kernel's store goes directly to the devices that read the element. A
// copy moves one range for each pair of devices; the range contains everything that the receiver
// reads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "interlace/base/errors.hpp"
#include "interlace/kernel/region.hpp"

namespace interlace::workload {

// For each column below `values`, the set of devices whose rows contain the column (bit d stands
// for device d). Device d has the rows [rows[d], rows[d + 1]), and row r has the columns
// [offsets[r], offsets[r + 1]).
inline std::vector<std::uint16_t> readers_of_columns(const std::vector<std::uint64_t>& rows,
                                                     const std::uint64_t* offsets,
                                                     const std::uint32_t* columns,
                                                     std::uint64_t values) {
  std::vector<std::uint16_t> readers(values, 0);
  for (std::size_t d = 0; d + 1 < rows.size(); ++d) {
    const auto bit = static_cast<std::uint16_t>(1U << d);
    std::for_each(columns + offsets[rows[d]], columns + offsets[rows[d + 1]], [&](std::uint32_t c) {
      readers[c] = static_cast<std::uint16_t>(readers[c] | bit);
    });
  }
  return readers;
}

// Sends elements to the devices in `readers`, which has one entry for each group of 2^shift
// elements. Each device's part must consist of whole groups.
inline kernel::region_options sent_to_readers(kernel::region_options options,
                                              std::vector<std::uint16_t> readers,
                                              std::uint32_t shift = 0) {
  const auto& cut = options.boundaries;
  const auto devices = static_cast<std::uint32_t>(cut.size()) - 1;
  options.subscribers.assign(devices, {});
  for (std::uint32_t owner = 0; owner < devices; ++owner) {
    std::vector<subscriber_range> ranges(devices);
    for (std::uint64_t g = cut[owner] >> shift; g < cut[owner + 1] >> shift; ++g) {
      readers[g] = static_cast<std::uint16_t>(readers[g] & ~(1U << owner));
      for (std::uint32_t rest = readers[g]; rest != 0; rest &= rest - 1) {
        subscriber_range& r = ranges[static_cast<std::uint32_t>(__builtin_ctz(rest))];
        if (r.devices == 0) r = {g << shift, 0, rest & -rest};
        r.end = (g + 1) << shift;
      }
    }
    for (const subscriber_range& r : ranges) {
      if (r.devices != 0) options.subscribers[owner].push_back(r);
    }
  }
  options.readers = std::move(readers);
  options.reader_shift = shift;
  return options;
}

// Returns true if values go only to devices that read them ("needed"), and false if values go to
// all devices ("all"). Throws usage_error for any other word.
inline bool parse_subscribers(const std::string& subscribe) {
  if (subscribe == "all" || subscribe == "needed") return subscribe == "needed";
  throw usage_error("unknown choice of subscribers '" + subscribe + "'; give 'all' or 'needed'");
}

}  // namespace interlace::workload
