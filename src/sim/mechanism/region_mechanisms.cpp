#include "sim/mechanism/region_mechanisms.hpp"

#include <array>
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
  for (const auto& [which, made] : table) {
    if (which == m) return made();
  }
  const std::string name = kernel::mechanism_name(m);
  if (m == mechanism::multi_path) {
    throw usage_error(name +
                      " is measured on real GPUs; interlace plan --simulate runs a plan of such "
                      "copies on a simulated machine");
  }
  throw usage_error(name + " is measured on real GPUs and not simulated; " +
                    kernel::mechanism_name(mechanism::bulk_copy) +
                    " also moves everything at the exchange");
}

std::vector<mechanism> simulated_where(bool (*is)(const region_mechanism&)) {
  std::vector<mechanism> found;
  for (const auto& [which, made] : table) {
    if (is(made())) found.push_back(which);
  }
  return found;
}

}  // namespace interlace::sim
