// A machine as a C++ header, for programs with kernels of their own.
#pragma once

#include <string>

#include "interlace/machine/machine.hpp"

namespace interlace::machine {

// A header with a function of this name that returns the machine. `origin` says in its first line
// where the machine comes from. Every field of the key list (keys.cpp) is in it.
std::string header_of(machine described, const std::string& function, const std::string& origin);

}  // namespace interlace::machine
