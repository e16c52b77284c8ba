// Writes a machine as a C++ header, for programs with kernels of their own.
#pragma once

#include <string>

#include "interlace/machine/machine.hpp"

namespace interlace::machine {

// A header with a function of this name, which returns the machine. The header's first line has
// `origin`, which says where the machine comes from. The header has every field of the list of keys
// (keys.cpp).
std::string header_of(machine described, const std::string& function, const std::string& origin);

}  // namespace interlace::machine
