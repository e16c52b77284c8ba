// Finds the implementation of a mechanism on GPUs.
#pragma once

#include <memory>
#include <string>

#include "cuda/mechanism/table.hpp"
#include "interlace/base/errors.hpp"
#include "interlace/kernel/mechanism.hpp"

namespace interlace::cuda {

// Makes the implementation of a mechanism. Throws usage_error if nodes of GPUs do not have the
// mechanism. The error suggests an alternative.
inline std::unique_ptr<node_mechanism> make_mechanism(kernel::mechanism which,
                                                      const node_parts& of) {
  kernel::check_has(kernel::node_kind::cuda, which);
  return node_mechanisms.at(static_cast<std::size_t>(which))(of);
}

// The implementation of a mechanism for regions of groups. Throws usage_error if these regions do
// not have the mechanism.
inline const region_mechanism& mechanism_of_regions(kernel::mechanism which) {
  if (kernel::row_of(which).of_regions) {
    return region_mechanisms.at(static_cast<std::size_t>(which))();
  }
  throw usage_error(std::string(kernel::mechanism_name(which)) +
                    " is not a mechanism of regions of a group");
}

}  // namespace interlace::cuda
