// The fastest way to copy messages of each size, as measured on a machine: the profile that
// `interlace tune copy` writes (python/interlace/copy_tuning.py; docs/reference/json.md) and the
// copy engine uses.
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

// At least one end must be a GPU.
copy_direction direction_of(machine::endpoint from, machine::endpoint to);
// host-to-gpu, gpu-to-host or gpu-to-gpu. Throws usage_error for any other.
copy_direction copy_direction_named(const std::string& name);

// How messages of `bytes` or more are copied.
struct copy_choice {
  std::uint64_t bytes = 0;
  bool gpus = false;         // other GPUs may relay
  bool host = false;         // the host may relay; if nothing may relay: one plain copy
  std::uint32_t chunks = 0;  // of a staged part; 0: the planner chooses
  copy_executor executor = copy_executor::automatic;
};

// direct, gpus, host or gpus+host.
std::string paths_name(const copy_choice& choice);

struct copy_profile {
  std::string model;  // of the GPUs that it was measured on
  std::uint32_t gpus = 0;
  std::string driver;
  // By direction, in ascending order of bytes. Messages shorter than the first are one plain copy.
  std::array<std::vector<copy_choice>, copy_direction_count> choices;

  copy_choice of(copy_direction direction, std::uint64_t bytes) const;
  // The size of the shortest message that is not always one plain copy.
  std::uint64_t least_bytes() const;
  // How this machine differs from the profile's, as parts of a sentence.
  std::vector<std::string> differences(const std::string& here, std::uint32_t gpus_here,
                                       const std::string& driver_here) const;
};

// `name` is the file's name, for errors. Throws usage_error for a text that is not a profile.
copy_profile read_copy_profile(const std::string& text, const std::string& name);

// The path of the profile for GPUs of a model, as profiles.py has it: below XDG_CONFIG_HOME or
// HOME, for which `value_of` returns the values. Nothing if neither has a value.
std::optional<std::string> copy_profile_path(
    const std::string& model,
    const std::function<std::optional<std::string>(const std::string&)>& value_of);

}  // namespace interlace::plan
