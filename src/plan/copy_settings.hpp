// The environment variables that set options of copies.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "interlace/copy.hpp"

namespace interlace::plan {

struct copy_setting {
  std::string variable;
  std::string standard;  // value that applies if the variable is not set
  std::string meaning;   // meaning of the variable, for people
};

// All settings, in the order of the members of copy_options.
const std::vector<copy_setting>& copy_settings();

// The value of a variable. An empty variable counts as not set.
std::optional<std::string> value_of_environment(const std::string& name);

// Reads the options. `value_of` returns the value of a variable by its name. Throws usage_error if
// a value is not valid.
copy_options read_copy_options(
    const std::function<std::optional<std::string>(const std::string&)>& value_of);

// Returns the options that words such as "INTERLACE_COPY=streams" set. If several words have the
// same name, the last word counts. The environment supplies the values of names without a word.
// Throws usage_error if a value is not valid.
copy_options read_copy_options(const std::vector<std::string>& words);

}  // namespace interlace::plan
