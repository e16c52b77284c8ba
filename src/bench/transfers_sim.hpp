// Messages over planned paths on a simulated machine, as bandwidth benchmarks send them.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "machine/machine.hpp"
#include "plan/plan.hpp"
#include "sim/transfer/plan_executor.hpp"

namespace interlace::bench {

struct simulated_transfers {
  std::vector<plan::plan> plans;  // each is sent again and again by a process of its own
  std::uint32_t messages = 1;     // how often
  std::uint32_t window = 1;       // of them may be outstanding
  // The next one goes when the oldest outstanding one has arrived (a put test); otherwise a whole
  // window goes when all of the last one have, of all processes (the OSU bandwidth tests).
  bool sliding = false;
  bool graphs = false;
  bool overlap = false;          // graphs of one process; else they follow each other
  bool warm = true;              // graphs are cached from the start
  bool other_addresses = false;  // every launch of a cached graph has other buffers
  double handshake_s = 0;        // ahead of a window, until both sides know of it
  double acknowledgement_s = 0;  // behind a window
  bool moves = true;             // real bytes, compared at their destination; else only time
  std::function<void()> check_interrupt;
};

struct transfers_result {
  std::vector<std::vector<sim::execution_times>> times;  // by plan and message
  std::vector<sim::link_count> links;
  double time_s = 0;
  std::uint64_t wrong_bytes = 0;
  std::vector<std::uint32_t> most_engines;  // by GPU: copies under way at once, at most
};

// Throws usage_error for a number that is 0, model_error if the simulation lost anything.
transfers_result transfers_on_sim(const simulated_transfers& asked,
                                  const machine::machine& described);

}  // namespace interlace::bench
