// Mechanisms and their variants, by name.
#pragma once

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

}  // namespace interlace::run
