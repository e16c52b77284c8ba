// What mechanisms are configured by, by name. The names, in the order of the values here, are in
// src/kernel/mechanisms.toml.
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

// How the polling agent moves bytes: by loads and stores of its threads, or by bulk copies through
// shared memory (cp.async.bulk), one warp a block, of which one thread works.
enum class agent_copy : std::uint8_t { vectors, bulk };

// Those that parse throw usage_error, which lists the names that there are.
const char* collective_name(collective c);
collective parse_collective(const std::string& name);

const char* memory_hint_name(memory_hint h);
memory_hint parse_memory_hint(const std::string& name);

agent_copy parse_agent_copy(const std::string& name);

}  // namespace interlace::kernel
