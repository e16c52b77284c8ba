// Random updates of a table in a GPU's memory: HPCC's RandomAccess by bins and by plain atomics,
// and the rate of each stage of the bins.
#pragma once

#include <cstdint>
#include <vector>

namespace interlace::bench {

struct update_request {
  std::uint64_t table_bytes = 0;  // a power of two, at least 1 MiB
  std::uint64_t updates = 0;      // 0: four for each element, as HPCC's rules say
  std::uint32_t repeats = 3;
};

struct update_times {
  std::uint64_t updates = 0;
  std::uint64_t bins = 0;  // bins of a pass; 0: the table fits in the L2, so plain atomics serve it
  std::uint64_t windows_a_bin = 0;  // 1: one level of bins
  std::uint64_t window_bytes = 0;
  std::uint64_t passes = 0;  // over the updates of a round
  std::uint64_t round_updates = 0;
  std::uint64_t buffer_bytes = 0;
  std::uint64_t look_ahead = 0;  // the most updates that wait at a time
  std::uint64_t direct = 0;      // updates that found no room in their bin, in a run
  std::vector<double> plain_s;   // one for each repeat
  std::vector<double> binned_s;
  std::uint64_t wrong = 0;  // elements that differ after both methods have run the same stream
  double memory_bytes_per_s = 0;  // the GPU's memory: the slower of reading and writing
  double bytes_an_update = 0;     // that the bins must move at least
  double group_s = 0;             // the time to group all updates by bins, without appending
  double append_s = 0;            // the time of a run to group, and to append to bins
  double split_s = 0;             // the time of a run to split bins of several windows
  double combine_s = 0;           // the time of a run to combine windows with their updates
};

// Measures on GPU 0. Throws usage_error for a request that makes no sense, and device_error if the
// GPU has too little memory or fails.
update_times measure_updates(const update_request& request);

// The table lies in the host's memory.
struct host_update_request {
  std::uint64_t table_bytes = 0;  // a power of two, at least 1 MiB
  std::uint64_t updates = 0;      // 0: four for each element
  std::uint64_t link_updates =
      std::uint64_t{1} << 24U;  // the number of updates for stores and atomics over the link
  std::uint32_t repeats = 1;
};

struct host_update_times {
  std::uint64_t updates = 0;
  std::uint64_t link_updates = 0;  // the number of updates of stores_s and atomics_s
  std::uint64_t bins = 0;
  std::uint64_t window_bytes = 0;
  std::uint64_t pool_bytes = 0;
  std::uint64_t threads = 0;
  std::vector<double> sent_s;  // time by bins over the link, for each repeat
  double stores_s = 0;         // time of stores over the link
  double atomics_s = 0;  // time of atomics over the link, which do not see the host's own updates
  double host_s = 0;     // time of the host alone, with all its cores
  double table_copy_s =
      0;  // time to copy the whole table to the GPU and back, in both directions at once
  double link_bytes_per_s = 0;  // from the GPU to the host, by copies
  double send_s = 0;            // time to send all updates, if the host drops them
  double unpack_s =
      0;  // time in which the host applies the `unpacked` updates that are in its slots
  std::uint64_t unpacked = 0;
  double busiest_share = 0;  // updates of the thread that applied the most, divided by the mean
  std::uint64_t wrong = 0;   // elements that differ after an even number of runs
};

// Measures GPU 0 and its host. Throws the same errors as measure_updates.
host_update_times measure_host_updates(const host_update_request& request);

}  // namespace interlace::bench
