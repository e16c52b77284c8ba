// Messages over planned paths on a simulated machine, sent as bandwidth benchmarks send them.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "interlace/machine/machine.hpp"
#include "plan/plan.hpp"
#include "sim/transfer/plan_executor.hpp"

namespace interlace::bench {

struct simulated_transfers {
  std::vector<plan::plan> plans;  // a process for each plan sends it `messages` times
  std::uint32_t messages = 1;
  std::uint32_t window = 1;  // how many messages can be outstanding
  // If true, a message is sent when the oldest outstanding one has arrived (a put test). If false,
  // a whole window is sent when the last windows of all processes have arrived (the OSU bandwidth
  // tests).
  bool sliding = false;
  bool graphs = false;
  bool overlap = false;          // graphs of one process overlap; else they follow each other
  bool warm = true;              // graphs are cached from the start
  bool other_addresses = false;  // every launch of a cached graph has other buffers
  double handshake_s = 0;        // before a window, until both sides know of it
  double acknowledgement_s = 0;  // after a window
  bool moves = true;             // real bytes are moved and compared; else only time passes
  std::function<void()> check_interrupt;
};

struct transfers_result {
  std::vector<std::vector<sim::execution_times>> times;  // by plan and message
  std::vector<sim::link_count> links;
  double time_s = 0;
  std::uint64_t wrong_bytes = 0;
  std::vector<std::uint32_t> most_engines;  // by GPU: the most copies in flight at once
};

// Throws usage_error for a number that is 0, model_error if the simulation lost anything.
transfers_result transfers_on_sim(const simulated_transfers& asked,
                                  const machine::machine& described);

}  // namespace interlace::bench
