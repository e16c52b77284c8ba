// Runs a trace on a simulated machine: its kernels' blocks get places as those of any kernel, and
// their warps do what the trace says.
//
// Ranges of addresses of a GPU are put into its simulated memory one behind another. What is stored
// to another GPU goes as the stores of the mechanism do. Copies from and to the host are left out.
// A warp of the trace is one of the machine, whatever their widths.
#pragma once

#include <cstdint>
#include <functional>

#include "kernel/region.hpp"
#include "machine/machine.hpp"
#include "sim/gpu/gpu.hpp"
#include "sim/tasks/simulation.hpp"
#include "sim/trace/reader.hpp"

namespace interlace::sim {

struct replayed {
  double time_s = 0;
  gpu_counters counters;
  traffic copies;
  traffic exchanges;
  trace::totals totals;           // of what was replayed
  std::uint64_t host_copies = 0;  // that were left out
};

// Whether stores of a replay can go as the mechanism says.
bool replays(kernel::mechanism how);

// Throws usage_error for a trace that the machine cannot run (GPUs, blocks that fit no compute
// unit, memory, missing links) or that is damaged, and model_error if not every access of the trace
// was replayed. `check_interrupt` may throw.
replayed replay(const trace::reader& from, const machine::machine& described, kernel::mechanism how,
                const std::function<void()>& check_interrupt);

}  // namespace interlace::sim
