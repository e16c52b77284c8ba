#include "sim/mechanism/region_mechanisms.hpp"

#include <array>
#include <string>
#include <utility>

#include "base/errors.hpp"

namespace interlace::sim {

namespace {

using kernel::mechanism;
using row = std::pair<mechanism, const region_mechanism& (*)()>;

constexpr std::array<row, 13> table{{
    {mechanism::bulk_copy, bulk_copy},
    {mechanism::split, split},
    {mechanism::inline_stores, inline_stores},
    {mechanism::polling, polling},
    {mechanism::device_launch, device_launch},
    {mechanism::copy_engine, copy_engine},
    {mechanism::proact_hardware, proact_hardware},
    {mechanism::serial_copy, serial_copy},
    {mechanism::write_combining, write_combining},
    {mechanism::finepack, finepack},
    {mechanism::config_packet, config_packet},
    {mechanism::gps, gps},
    {mechanism::infinite_bandwidth, infinite_bandwidth},
}};

}  // namespace

const region_mechanism& simulated(mechanism m) {
  kernel::check_has(kernel::node_kind::sim, m);
  for (const auto& [which, made] : table) {
    if (which == m) return made();
  }
  throw model_error(std::string(kernel::mechanism_name(m)) +
                    " is simulated by its row and has no file here");
}

}  // namespace interlace::sim
