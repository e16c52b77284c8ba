// Fills in figures that the planner of copies needs and that neither the driver nor a description
// has.
#pragma once

#include "interlace/machine/machine.hpp"

namespace interlace::machine {

// Replaces copy figures that are 0, by figures that were measured on an H200
// (machines/hgx-h200-4.toml), and by rates that follow from the links: an engine fills the fastest
// link of its GPU, and the host's memory feeds all of the host's links. Figures that are not 0
// stay.
void assume_copies(machine& described);

}  // namespace interlace::machine
