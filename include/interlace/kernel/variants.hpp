// The named options of mechanisms. src/kernel/mechanisms.toml lists the names of these options, in
// the same order as the values of the enums below.
#pragma once

#include <cstdint>
#include <string>

namespace interlace::kernel {

// The operations by which NCCL delivers a region at its exchange.
enum class collective : std::uint8_t {
  // all_gather if parts are equal, broadcast if they are not, and send_receive for ranges
  best_fitting,
  all_gather,    // every device receives all parts; parts of unequal length are padded
  broadcast,     // every device receives all parts, by a group of broadcasts, one for each part
  send_receive,  // a group of sends and receives, with one send and one receive for each delivery
};

// Hints to the driver about a region in unified memory (PROACT, section IV-D).
enum class memory_hint : std::uint8_t {
  none,  // a page moves to the device that touches it
  // Readers get copies of a page; the exchange fetches the elements to which they subscribe.
  read_mostly,
  // The pages of a part stay on the part's owner, and other devices access them there.
  preferred_location,
  accessed_by,  // all devices have every page mapped from the start
};

// The way in which the polling agent moves bytes: by loads and stores of its threads (`vectors`),
// or by copies in bulk through shared memory (`bulk`, cp.async.bulk). With `bulk`, each block has
// one warp, and one thread of that warp works.
enum class agent_copy : std::uint8_t { vectors, bulk };

// The parse functions below throw usage_error for an unknown name. The error lists the valid names.
const char* collective_name(collective c);
collective parse_collective(const std::string& name);

const char* memory_hint_name(memory_hint h);
memory_hint parse_memory_hint(const std::string& name);

agent_copy parse_agent_copy(const std::string& name);

}  // namespace interlace::kernel
