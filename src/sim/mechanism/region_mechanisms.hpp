// The mechanisms that the simulated node has.
#pragma once

#include "interlace/kernel/mechanism.hpp"
#include "sim/mechanism/region_mechanism.hpp"
#include "sim/mechanism/table.hpp"

namespace interlace::sim {

// Throws usage_error if the mechanism is not simulated.
inline const region_mechanism& simulated(kernel::mechanism m) {
  kernel::check_has(kernel::node_kind::sim, m);
  return simulated_mechanisms.at(static_cast<std::size_t>(m))();
}

}  // namespace interlace::sim
