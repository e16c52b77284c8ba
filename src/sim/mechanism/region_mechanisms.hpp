// The table of the mechanisms that the simulated node has.
#pragma once

#include "kernel/region.hpp"
#include "sim/mechanism/region_mechanism.hpp"

namespace interlace::sim {

// Throws usage_error for a mechanism that is not simulated.
const region_mechanism& simulated(kernel::mechanism m);

// Each is defined in its own file.
const region_mechanism& bulk_copy();
const region_mechanism& config_packet();
const region_mechanism& copy_engine();
const region_mechanism& device_launch();
const region_mechanism& finepack();
const region_mechanism& gps();
const region_mechanism& infinite_bandwidth();
const region_mechanism& inline_stores();
const region_mechanism& polling();
const region_mechanism& proact_hardware();
const region_mechanism& serial_copy();
const region_mechanism& split();
const region_mechanism& write_combining();

}  // namespace interlace::sim
