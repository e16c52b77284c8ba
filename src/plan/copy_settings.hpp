// The environment variables of copies.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "interlace/copy.hpp"

namespace interlace::plan {

struct copy_setting {
  std::string variable;
  std::string standard;  // its value where it is not set
  std::string meaning;   // for people
};

// In the order of the members of copy_options.
const std::vector<copy_setting>& copy_settings();

// The value of a variable; one that is empty is not set.
std::optional<std::string> value_of_environment(const std::string& name);

// Options from the values that `value_of` gives for names of variables. Throws usage_error.
copy_options read_copy_options(
    const std::function<std::optional<std::string>(const std::string&)>& value_of);

// Options from words such as "INTERLACE_COPY=streams", of which the last one with a name counts,
// and from the environment for names that none has. Throws usage_error.
copy_options read_copy_options(const std::vector<std::string>& words);

}  // namespace interlace::plan
