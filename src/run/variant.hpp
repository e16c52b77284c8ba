// Mechanisms, their variants and the parameters of `packed`, by name.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>

#include "interlace/base/errors.hpp"
#include "interlace/kernel/region.hpp"

namespace interlace::run {

// Sets the mechanism of a region's options or of a request, by its name. If the name has the suffix
// `-without-transfers`, transfers are turned off.
template <class Options>
void set_mechanism(Options& options, const std::string& name) {
  const std::string without = "-without-transfers";
  options.transfers = !name.ends_with(without);
  options.mechanism = kernel::parse_mechanism(
      options.transfers ? name : name.substr(0, name.size() - without.size()));
}

// Sets the variant of a region's options or of a request, by its name. The caller must set the
// mechanism first, because the mechanism determines which variants exist. An empty name leaves the
// default. Throws usage_error if the name does not exist, or if the mechanism has no variants.
template <class Options>
void set_variant(Options& options, const std::string& variant) {
  if (variant.empty()) return;
  switch (kernel::row_of(options.mechanism).variants) {
    case kernel::mechanism_variants::collective:
      options.collective = kernel::parse_collective(variant);
      return;
    case kernel::mechanism_variants::memory_hint:
      options.hint = kernel::parse_memory_hint(variant);
      return;
    case kernel::mechanism_variants::agent_copy:
      options.agent_copy = kernel::parse_agent_copy(variant);
      return;
    case kernel::mechanism_variants::none:
      throw usage_error(std::string(kernel::mechanism_name(options.mechanism)) +
                        " has no variants, and '" + variant + "' is given");
  }
}

// The parameters of `packed`, by name.
using packing_parameters = std::map<std::string, std::uint64_t>;

// Sets parameters of `packed` in `options`, which are the options of a region or a request. The
// parameters are packet_bytes, queue_bytes, combining (1 for off, 2 for on), update_windows and
// unpack_blocks. Throws usage_error for other names, for values that are out of bounds, and if the
// mechanism packs no updates.
template <class Options>
void set_packing(Options& options, const packing_parameters& parameters) {
  const kernel::mechanism_row& how = kernel::row_of(options.mechanism);
  if (!parameters.empty() && !how.packs_updates && !how.moves_packets) {
    throw usage_error(std::string(how.name) + " packs no updates, and '" +
                      parameters.begin()->first + "' is given");
  }
  for (const auto& [name, value] : parameters) {
    if (value == 0 || value > std::numeric_limits<std::uint32_t>::max()) {
      throw usage_error(name + " cannot be " + std::to_string(value) +
                        "; give a number from 1 to 4294967295");
    }
    const auto number = static_cast<std::uint32_t>(value);
    if (name == "packet_bytes") {
      options.packet_bytes = number;
    } else if (name == "queue_bytes") {
      options.queue_bytes = value;
    } else if (name == "update_windows") {
      options.update_windows = number;
    } else if (name == "unpack_blocks") {
      options.unpack_blocks = number;
    } else if (name == "combining" && value <= 2) {
      options.combine_in_packets = value == 2;
    } else if (name == "combining") {
      throw usage_error("combining is 1 (off) or 2 (on), and not " + std::to_string(value));
    } else {
      throw usage_error("packed has no parameter '" + name + "'");
    }
  }
}

}  // namespace interlace::run
