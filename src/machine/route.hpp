// Routes through the links of a machine.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "interlace/machine/machine.hpp"

namespace interlace::machine {

// One link of a route. `forward` means from the link's end a to its end b.
struct hop {
  std::size_t link = 0;
  bool forward = true;
  friend bool operator==(const hop&, const hop&) = default;
};

// The route with the fewest links. Of several such routes, it is the one whose slowest link is the
// fastest. Of several of these, it is the one whose links come first in the machine. Switches and
// the host forward messages; GPUs do not. The route is empty if both ends are the same. No value if
// there is no route.
std::optional<std::vector<hop>> route(const machine& described, endpoint from, endpoint to);

// The name of an end in a machine file: gpu0, a switch's name, or host.
std::string name(const machine& described, endpoint end);

// A route as text, such as "gpu0 -nvlink2-> nvswitch -nvlink2-> gpu1".
std::string text(const machine& described, endpoint from, const std::vector<hop>& way);

}  // namespace interlace::machine
