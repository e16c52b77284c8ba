// The named options of mechanisms. src/kernel/mechanisms.toml lists the names in the order of the
// values here.
#pragma once

#include <cstdint>
#include <string>

namespace interlace::kernel {

// The operations by which NCCL delivers a region at its exchange.
enum class collective : std::uint8_t {
  best_fitting,  // all_gather for equal parts, broadcast for others, send_receive for ranges
  all_gather,    // every device receives everything; parts of unequal length are padded
  broadcast,     // every device receives everything: one broadcast for each part, grouped
  send_receive,  // one send and receive for each delivery, grouped
};

// Hints to the driver about a region in unified memory (PROACT, section IV-D).
enum class memory_hint : std::uint8_t {
  none,                // a page moves to the device that touches it
  read_mostly,         // readers get copies; the exchange fetches what they subscribe to
  preferred_location,  // a part's pages stay on its owner, and other devices access them there
  accessed_by,         // all devices have every page mapped from the start
};

// How the polling agent moves bytes: by loads and stores of its threads, or by bulk copies through
// shared memory (cp.async.bulk) with one warp a block, of which one thread works.
enum class agent_copy : std::uint8_t { vectors, bulk };

// The parse functions throw usage_error that lists the valid names.
const char* collective_name(collective c);
collective parse_collective(const std::string& name);

const char* memory_hint_name(memory_hint h);
memory_hint parse_memory_hint(const std::string& name);

agent_copy parse_agent_copy(const std::string& name);

}  // namespace interlace::kernel
