// Writes a machine as a C++ header, for programs with kernels of their own.
#pragma once

#include <string>

#include "interlace/machine/machine.hpp"

namespace interlace::machine {

// A header that has a function with the name `function`, which returns the machine. The first line
// of the header contains `origin`, which says where the machine comes from. The header has every
// field in the list of keys (keys.cpp).
std::string header_of(machine described, const std::string& function, const std::string& origin);

}  // namespace interlace::machine
