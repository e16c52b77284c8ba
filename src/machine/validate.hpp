// Checks machines, so that all other C++ code can rely on them.
#pragma once

#include <string>
#include <vector>

#include "interlace/machine/machine.hpp"

namespace interlace::machine {

// Returns one sentence for each error, and no sentence if the machine is valid. It checks the
// ranges and rules of keys.hpp and the packet rules. It also checks that the ends of each link
// exist and differ, and that every GPU can reach every other GPU.
std::vector<std::string> validate(const machine& described);

}  // namespace interlace::machine
