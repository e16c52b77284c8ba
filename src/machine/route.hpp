// Routes through the links of a machine.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "interlace/machine/machine.hpp"

namespace interlace::machine {

// One link of a route. `forward` means that the route goes from the link's end a to its end b.
struct hop {
  std::size_t link = 0;
  bool forward = true;
  friend bool operator==(const hop&, const hop&) = default;
};

// The route with the fewest links. Among several such routes, it is the route whose slowest link is
// the fastest. If several routes are still equal, it is the route whose links come first in the
// machine. Switches and the host forward messages, but GPUs forward no messages. The route is empty
// if both ends are the same. There is no value if there is no route.
std::optional<std::vector<hop>> route(const machine& described, endpoint from, endpoint to);

// The name of an end in a machine file: gpu0, a switch's name, or host.
std::string name(const machine& described, endpoint end);

// A route as text, such as "gpu0 -nvlink2-> nvswitch -nvlink2-> gpu1".
std::string text(const machine& described, endpoint from, const std::vector<hop>& way);

}  // namespace interlace::machine
