// Made by tools/mechanism_tables.py of src/kernel/mechanisms.toml; do not edit.
#pragma once

#include <array>

#include "sim/mechanism/region_mechanism.hpp"

// clang-format off

namespace interlace::sim {

// Each is defined in the file of its name.
const region_mechanism& bulk_copy();
const region_mechanism& split();
const region_mechanism& inline_stores();
const region_mechanism& polling();
const region_mechanism& device_launch();
const region_mechanism& copy_engine();
const region_mechanism& proact_hardware();
const region_mechanism& serial_copy();
const region_mechanism& write_combining();
const region_mechanism& finepack();
const region_mechanism& config_packet();
const region_mechanism& gps();
const region_mechanism& infinite_bandwidth();

// By the value of kernel::mechanism; null: it is not simulated.
inline constexpr std::array<const region_mechanism& (*)(), 17> simulated_mechanisms{{
    bulk_copy,
    nullptr,
    split,
    inline_stores,
    polling,
    device_launch,
    copy_engine,
    proact_hardware,
    serial_copy,
    write_combining,
    finepack,
    config_packet,
    gps,
    nullptr,
    nullptr,
    nullptr,
    infinite_bandwidth,
}};

}  // namespace interlace::sim
