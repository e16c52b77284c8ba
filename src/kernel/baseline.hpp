// What the baselines `nccl` and `unified-memory` are configured by.
#pragma once

#include <cstdint>
#include <string>

namespace interlace::kernel {

// By which operations NCCL delivers a region at its exchange.
enum class collective : std::uint8_t {
  best_fitting,  // all_gather of equal parts, broadcast of others, send_receive for ranges
  all_gather,    // everybody receives everything; parts of unequal length travel padded
  broadcast,     // everybody receives everything: one for each part, grouped
  send_receive,  // each delivery by itself, grouped
};

// What the driver is told about a region in unified memory (PROACT, section IV-D).
enum class memory_hint : std::uint8_t {
  none,                // pages move to who touches them
  read_mostly,         // readers get copies; what they subscribe to is fetched at the exchange
  preferred_location,  // a part's pages stay on its owner, and others reach them there
  accessed_by,         // all devices have every page mapped from the start
};

// The names that users type: "best-fitting", "all-gather", "broadcast", "send-receive".
const char* collective_name(collective c);
collective parse_collective(const std::string& name);

// "none", "read-mostly", "preferred-location", "accessed-by".
const char* memory_hint_name(memory_hint h);
memory_hint parse_memory_hint(const std::string& name);

}  // namespace interlace::kernel
