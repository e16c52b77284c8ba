// Runs a trace on a simulated machine. The blocks of the trace's kernels are placed like those of
// any kernel, and their warps execute the instructions in the trace.
//
// A GPU's ranges of addresses are placed one after another in its simulated memory. A store to
// another GPU leaves in the way that the mechanism sends stores. Copies from and to the host are
// left out. Each warp of the trace becomes a warp of the machine, even if the warp widths of trace
// and machine differ.
#pragma once

#include <cstdint>
#include <functional>

#include "interlace/kernel/region.hpp"
#include "interlace/machine/machine.hpp"
#include "sim/gpu/gpu.hpp"
#include "sim/tasks/simulation.hpp"
#include "sim/trace/reader.hpp"

namespace interlace::sim {

struct replayed {
  double time_s = 0;
  gpu_counters counters;
  traffic copies;
  traffic exchanges;
  trace::totals totals;           // totals of the part that was replayed
  std::uint64_t host_copies = 0;  // copies from or to the host, which are left out
};

// Whether a replay can send stores in the way that the mechanism does.
bool replays(kernel::mechanism how);

// Throws usage_error if the trace is damaged or if the machine cannot run it. The reason can be the
// machine's GPUs, its memory, missing links, or blocks that fit on no compute unit. Throws
// model_error if some accesses of the trace were not replayed. `check_interrupt` may throw.
replayed replay(const trace::reader& from, const machine::machine& described, kernel::mechanism how,
                const std::function<void()>& check_interrupt);

}  // namespace interlace::sim
