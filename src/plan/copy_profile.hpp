// The fastest way to copy messages of each size, as measured on a machine. `interlace tune copy`
// writes this profile (python/interlace/tuning/copy_tuning.py; docs/reference/json.md), and the
// copy engine uses it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "interlace/copy.hpp"
#include "interlace/machine/machine.hpp"

namespace interlace::plan {

enum class copy_direction : std::uint8_t { host_to_gpu, gpu_to_host, gpu_to_gpu };
inline constexpr std::size_t copy_direction_count = 3;

// The direction of a message. At least one of its ends must be a GPU.
copy_direction direction_of(machine::endpoint from, machine::endpoint to);
// The direction with the name host-to-gpu, gpu-to-host or gpu-to-gpu. Throws usage_error for any
// other name.
copy_direction copy_direction_named(const std::string& name);

// The way in which messages of at least `bytes` bytes are copied.
struct copy_choice {
  std::uint64_t bytes = 0;
  bool gpus = false;  // whether other GPUs may relay
  // Whether the host may relay; if neither GPUs nor the host may relay, the copy is plain.
  bool host = false;
  std::uint32_t chunks = 0;  // number of chunks of a staged part; 0 means that the planner chooses
  copy_executor executor = copy_executor::automatic;
};

// The name of the paths of a choice: direct, gpus, host or gpus+host.
std::string paths_name(const copy_choice& choice);

struct copy_profile {
  std::string model;  // model of the GPUs on which the profile was measured
  std::uint32_t gpus = 0;
  std::string driver;
  // The choices of each direction, in ascending order of bytes. A message that is shorter than the
  // first choice is one plain copy.
  std::array<std::vector<copy_choice>, copy_direction_count> choices;

  copy_choice of(copy_direction direction, std::uint64_t bytes) const;
  // The size of the shortest message that is not always one plain copy.
  std::uint64_t least_bytes() const;
  // The differences between this machine and the machine of the profile, as parts of a sentence.
  std::vector<std::string> differences(const std::string& here, std::uint32_t gpus_here,
                                       const std::string& driver_here) const;
};

// Reads a profile. `name` is the file's name, for errors. Throws usage_error if the text is not a
// profile.
copy_profile read_copy_profile(const std::string& text, const std::string& name);

// The path of the profile for GPUs of a model. As in profiles.py, it is below XDG_CONFIG_HOME or
// HOME. `value_of` returns the values of these variables. There is no value if both variables are
// unset.
std::optional<std::string> copy_profile_path(
    const std::string& model,
    const std::function<std::optional<std::string>(const std::string&)>& value_of);

}  // namespace interlace::plan
