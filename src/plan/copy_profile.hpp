// What was measured to be the fastest way to copy on a machine: the profile that `interlace tune
// copy` writes (python/interlace/copy_tuning.py; docs/json.md), as the copy engine uses it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "interlace/copy.hpp"
#include "machine/machine.hpp"

namespace interlace::plan {

enum class copy_direction : std::uint8_t { host_to_gpu, gpu_to_host, gpu_to_gpu };
inline constexpr std::size_t copy_direction_count = 3;

// One end at least is a GPU's.
copy_direction direction_of(machine::endpoint from, machine::endpoint to);
// host-to-gpu, gpu-to-host or gpu-to-gpu. Throws usage_error for any other.
copy_direction copy_direction_named(const std::string& name);

// For messages of a size on.
struct copy_choice {
  std::uint64_t bytes = 0;
  bool gpus = false;         // other GPUs may relay
  bool host = false;         // the host may; neither: one plain copy
  std::uint32_t chunks = 0;  // of a part that is staged; 0: what the planner takes
  copy_executor executor = copy_executor::automatic;
};

// direct, gpus, host or gpus+host.
std::string paths_name(const copy_choice& choice);

struct copy_profile {
  std::string model;  // of the GPUs that it was measured on
  std::uint32_t gpus = 0;
  std::string driver;
  // By direction, in ascending order of bytes; what is shorter than the first is one plain copy.
  std::array<std::vector<copy_choice>, copy_direction_count> choices;

  copy_choice of(copy_direction direction, std::uint64_t bytes) const;
  // The shortest message that may be anything but one plain copy.
  std::uint64_t least_bytes() const;
  // What is not the same on this machine, as parts of a sentence.
  std::vector<std::string> differences(const std::string& here, std::uint32_t gpus_here,
                                       const std::string& driver_here) const;
};

// `name` is the file's, for errors. Throws usage_error for a text that is no profile.
copy_profile read_copy_profile(const std::string& text, const std::string& name);

// Where the profile of GPUs of a model is kept, as profiles.py has it: below XDG_CONFIG_HOME or
// HOME, by what `value_of` gives for these. Nothing where neither is known.
std::optional<std::string> copy_profile_path(
    const std::string& model,
    const std::function<std::optional<std::string>(const std::string&)>& value_of);

}  // namespace interlace::plan
