// What the planner of copies needs and neither the driver nor a description told.
#pragma once

#include "machine/machine.hpp"

namespace interlace::machine {

// Fills figures of copies that are 0 with those measured on an H200 (machines/hgx-h200-4.toml), and
// rates that follow from the links: an engine fills the fastest link of its GPU, the host's memory
// feeds all of its links. Figures that are there stay.
void assume_copies(machine& described);

}  // namespace interlace::machine
