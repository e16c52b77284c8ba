// Where the profiles of a machine lie.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace interlace::plan {

// The path of the profile of a kind, such as copy, for GPUs of a model. It is below XDG_CONFIG_HOME
// or HOME, as in profiles.py. `value_of` returns the values of these variables. No value if both
// are unset.
std::optional<std::string> profile_path(
    const std::string& kind, const std::string& model,
    const std::function<std::optional<std::string>(const std::string&)>& value_of);

}  // namespace interlace::plan
