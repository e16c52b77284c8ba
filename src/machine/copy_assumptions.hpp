// Fills in figures that the planner of copies needs, if neither the driver nor a description has
// them.
#pragma once

#include "interlace/machine/machine.hpp"

namespace interlace::machine {

// Replaces figures of copies that are 0 (unknown). Other figures stay the same. Most of the new
// figures were measured on an H200 (machines/hgx-h200-4.toml). The rates follow from the links: a
// copy engine fills the fastest link of its GPU, and the host's memory can feed all of the host's
// links.
void assume_copies(machine& described);

}  // namespace interlace::machine
