// The mechanisms of remote loads: a file for each, and the one place that picks from them.
#pragma once

#include <memory>

#include "kernel/remote_loads.hpp"
#include "sim/remote/load_mechanism.hpp"

namespace interlace::sim {

// Null for options that leave remote loads as they are. All throw usage_error for a machine that
// does not describe what the mechanism takes.
std::unique_ptr<load_mechanism> make_load_mechanism(const kernel::remote_load_options& options,
                                                    const hardware& parts);

std::unique_ptr<load_mechanism> make_dualopt(const kernel::remote_load_options& options,
                                             const hardware& parts);
std::unique_ptr<load_mechanism> make_page_migration(const hardware& parts);
std::unique_ptr<load_mechanism> make_griffin(const hardware& parts);

}  // namespace interlace::sim
