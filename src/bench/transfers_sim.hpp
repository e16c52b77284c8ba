// Messages over planned paths on a simulated machine. Processes send them as bandwidth benchmarks
// do.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "interlace/machine/machine.hpp"
#include "plan/plan.hpp"
#include "sim/transfer/plan_executor.hpp"

namespace interlace::bench {

struct simulated_transfers {
  std::vector<plan::plan> plans;  // for each process, the plan of the messages that it sends
  std::uint32_t messages = 1;     // number of messages that each process sends
  std::uint32_t window = 1;       // most messages that can be outstanding
  // If true, a message is sent once the oldest outstanding message has arrived (a put test). If
  // false, each process sends a whole window at once. It sends its next window once the current
  // windows of all processes have arrived (as in the OSU bandwidth tests).
  bool sliding = false;
  bool graphs = false;
  bool overlap = false;  // true: graphs of one process overlap; false: they run one after another
  bool warm = true;      // if true, graphs are cached from the start
  bool other_addresses = false;  // if true, every launch of a cached graph has other buffers
  double handshake_s = 0;        // time before a window in which both sides agree on it
  double acknowledgement_s = 0;  // time of the acknowledgement after a window
  bool moves = true;             // true: real bytes are moved and compared; false: only time passes
  std::function<void()> check_interrupt;
};

struct transfers_result {
  std::vector<std::vector<sim::execution_times>> times;  // indexed by plan and message
  std::vector<sim::link_count> links;
  double time_s = 0;
  std::uint64_t wrong_bytes = 0;
  // for each GPU, the most copies that were in flight at the same time
  std::vector<std::uint32_t> most_engines;
};

// Simulates the messages. Throws usage_error if a number is 0, and model_error if bytes arrived
// wrongly.
transfers_result transfers_on_sim(const simulated_transfers& asked,
                                  const machine::machine& described);

}  // namespace interlace::bench
