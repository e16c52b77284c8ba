// The PageRank workload on the real node.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "run/pagerank.hpp"

namespace interlace::run {

struct pagerank_measurement {
  pagerank_result result;       // of the last repeat; run.time_s is the median
  std::vector<double> times_s;  // of each repeat
  // NVLink counters of all GPUs, over all repeats; nothing where the driver has none.
  std::optional<double> data_tx_bytes;
  std::optional<double> raw_tx_bytes;
  std::vector<std::string> remarks;  // what went another way than asked, a sentence each
};

// Runs `warmup` times, then `repeats` times measured. The timeline and, for bulk-copy, the part of
// the time in which only copies run come from three more runs with events in between, which are not
// among the times: copy_s is the median of that part, of the measured time.
pagerank_measurement pagerank_on_cuda(const pagerank_request& request, std::uint32_t warmup,
                                      std::uint32_t repeats);

}  // namespace interlace::run
