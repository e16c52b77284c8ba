// Measurements with random updates of a table in a GPU's memory: HPCC's RandomAccess by bins and by
// plain atomics, and the rate of each stage of the bins.
#pragma once

#include <cstdint>
#include <vector>

namespace interlace::bench {

struct update_request {
  std::uint64_t table_bytes = 0;  // size of the table: a power of two, at least 1 MiB
  // number of updates; 0 means four for each element, as HPCC's rules say
  std::uint64_t updates = 0;
  std::uint32_t repeats = 3;
};

struct update_times {
  std::uint64_t updates = 0;
  // The number of bins of a pass; 0 if the table fits in the L2, so that plain atomics serve it.
  std::uint64_t bins = 0;
  std::uint64_t windows_a_bin = 0;  // number of windows of a bin; 1 means one level of bins
  std::uint64_t window_bytes = 0;
  std::uint64_t passes = 0;  // number of passes over the updates of a round
  std::uint64_t round_updates = 0;
  std::uint64_t buffer_bytes = 0;
  std::uint64_t look_ahead = 0;  // most updates that wait at the same time
  std::uint64_t direct = 0;      // number of updates of a run that found no room in their bin
  std::vector<double> plain_s;   // one time for each repeat
  std::vector<double> binned_s;
  // The number of elements that differ after both methods have applied the same updates.
  std::uint64_t wrong = 0;
  // The rate of the GPU's memory: the lower of its read rate and its write rate.
  double memory_bytes_per_s = 0;
  double bytes_an_update = 0;  // least number of bytes that the bins must move for each update
  double group_s = 0;          // time to group all updates by bins, without appending them
  double append_s = 0;         // time in a run to group updates and append them to bins
  double split_s = 0;          // time in a run to split bins of several windows
  double combine_s = 0;        // time in a run to combine windows with their updates
};

// Measures on GPU 0. Throws usage_error if the request is not valid, and device_error if the GPU
// has too little memory or fails.
update_times measure_updates(const update_request& request);

// A request for updates of a table in the host's memory.
struct host_update_request {
  std::uint64_t table_bytes = 0;  // size of the table: a power of two, at least 1 MiB
  std::uint64_t updates = 0;      // number of updates; 0 means four for each element
  // The number of updates for the measurement of stores and atomics over the link.
  std::uint64_t link_updates = std::uint64_t{1} << 24U;
  std::uint32_t repeats = 1;
};

struct host_update_times {
  std::uint64_t updates = 0;
  std::uint64_t link_updates = 0;  // the number of updates that stores_s and atomics_s measure
  std::uint64_t bins = 0;
  std::uint64_t window_bytes = 0;
  std::uint64_t pool_bytes = 0;
  std::uint64_t threads = 0;
  std::vector<double> sent_s;  // for each repeat, the time of all updates by bins over the link
  double stores_s = 0;         // time of stores over the link
  // The time of atomics over the link; such atomics do not see the host's own updates.
  double atomics_s = 0;
  double host_s = 0;  // time in which all cores of the host make the updates without the GPU
  // time to copy the whole table to the GPU and back, with both directions at once
  double table_copy_s = 0;
  double link_bytes_per_s = 0;  // rate of copies from the GPU to the host
  double send_s = 0;            // time to send all updates, while the host drops them
  // time in which the host applies the `unpacked` updates that are in its slots
  double unpack_s = 0;
  std::uint64_t unpacked = 0;
  // The number of updates of the busiest thread, divided by the mean over all threads.
  double busiest_share = 0;
  std::uint64_t wrong = 0;  // number of elements that differ after an even number of runs
};

// Measures GPU 0 and its host. Throws the same errors as measure_updates.
host_update_times measure_host_updates(const host_update_request& request);

}  // namespace interlace::bench
