// What the rest of the C++ code may rely on in a machine.
#pragma once

#include <string>
#include <vector>

#include "machine/machine.hpp"

namespace interlace::machine {

// One sentence for each thing that is wrong; empty if the machine can be used. Checked are: the
// ranges and rules of keys.hpp; ends that exist and differ; packet rules; every GPU is reached from
// every other one.
std::vector<std::string> validate(const machine& described);

}  // namespace interlace::machine
