// Finds the profiles of a machine.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace interlace::plan {

// The path of a profile for GPUs of a model. `kind` is the kind of profile, such as copy. As in
// profiles.py, the path is below XDG_CONFIG_HOME or HOME. `value_of` returns the values of these
// variables. There is no value if both variables are unset.
std::optional<std::string> profile_path(
    const std::string& kind, const std::string& model,
    const std::function<std::optional<std::string>(const std::string&)>& value_of);

}  // namespace interlace::plan
