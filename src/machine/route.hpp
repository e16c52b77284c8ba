// Ways through the links of a machine.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "machine/machine.hpp"

namespace interlace::machine {

// One link of a way; `forward` is from the link's end a to its end b.
struct hop {
  std::size_t link = 0;
  bool forward = true;
  friend bool operator==(const hop&, const hop&) = default;
};

// The way with the fewest links; of those the one whose slowest link is fastest, then the one whose
// links come first in the machine. GPUs do not forward for others, switches and the host do. Empty
// if both ends are the same, nothing if no way exists.
std::optional<std::vector<hop>> route(const machine& described, endpoint from, endpoint to);

// The name of an end as in a machine file: gpu0, a switch's name, host.
std::string name(const machine& described, endpoint end);

// A way as text: "gpu0 -nvlink2-> nvswitch -nvlink2-> gpu1".
std::string text(const machine& described, endpoint from, const std::vector<hop>& way);

}  // namespace interlace::machine
