// The mechanisms of remote loads. Each mechanism has a file in this folder, and make_load_mechanism
// selects one of them.
#pragma once

#include <memory>

#include "interlace/kernel/remote_loads.hpp"
#include "sim/remote/load_mechanism.hpp"

namespace interlace::sim {

// Returns null if the options leave remote loads as they are. Throws usage_error if the machine
// does not describe the hardware of the mechanism.
std::unique_ptr<load_mechanism> make_load_mechanism(const kernel::remote_load_options& options,
                                                    const hardware& parts);

std::unique_ptr<load_mechanism> make_dualopt(const kernel::remote_load_options& options,
                                             const hardware& parts);
std::unique_ptr<load_mechanism> make_page_migration(const hardware& parts);
std::unique_ptr<load_mechanism> make_griffin(const hardware& parts);

}  // namespace interlace::sim
