// What the rest of the C++ code may rely on in a machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "machine/machine.hpp"

namespace interlace::machine {

// With a lower rate or clock, a full queue or a long message takes more picoseconds, which are
// counted in parts of 65536, than 63 bits hold.
inline constexpr double least_bytes_per_s = 1e8;
inline constexpr double least_clock_hz = 1e6;
inline constexpr std::uint64_t most_queue_bytes = std::uint64_t{1} << 30U;

// One sentence for each thing that is wrong; empty if the machine can be used. Checked are: 1 to 16
// GPUs; rates and sizes that are divided by are positive and finite; cache geometry; ends that
// exist and differ; packet rules; every GPU is reached from every other one.
std::vector<std::string> validate(const machine& described);

}  // namespace interlace::machine
