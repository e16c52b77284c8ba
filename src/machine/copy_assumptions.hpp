// Fills in figures that the planner of copies needs and that neither the driver nor a description
// has.
#pragma once

#include "interlace/machine/machine.hpp"

namespace interlace::machine {

// Replaces figures of copies that are 0 (unknown); other figures stay. Most new figures were
// measured on an H200 (machines/hgx-h200-4.toml). The rates follow from the links: a copy engine
// fills the fastest link of its GPU, and the host's memory feeds all of the host's links.
void assume_copies(machine& described);

}  // namespace interlace::machine
