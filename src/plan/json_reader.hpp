// Reads the JSON of profiles.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "interlace/base/errors.hpp"

namespace interlace::plan {

// A value of a JSON text (RFC 8259). Numbers that are not integers are dropped, because the choices
// in profiles contain no such numbers.
struct json_value {
  using object = std::map<std::string, json_value>;
  std::variant<std::monostate, bool, std::uint64_t, std::string, std::vector<json_value>, object>
      held;

  template <class Type>
  const Type* as() const {
    return std::get_if<Type>(&held);
  }
};

// Throws usage_error if the text is not JSON.
json_value read_json(std::string_view text);

template <class Type>
const Type& json_member(const json_value::object& of, const char* name) {
  const auto found = of.find(name);
  if (found == of.end()) throw usage_error(std::string("it has no ") + name);
  const Type* held = found->second.as<Type>();
  if (held == nullptr) throw usage_error(std::string(name) + " has the wrong type");
  return *held;
}

// Returns the members of a profile. Throws usage_error if the text is not a profile of this kind
// and format.
const json_value::object& profile_members(const json_value& read, std::string_view kind,
                                          std::uint64_t format);

}  // namespace interlace::plan
