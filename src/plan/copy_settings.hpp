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

// Options from the values that `value_of` gives for names of variables. Throws usage_error.
copy_options read_copy_options(
    const std::function<std::optional<std::string>(const std::string&)>& value_of);

}  // namespace interlace::plan
