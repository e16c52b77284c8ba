#include "plan/block_profile.hpp"

#include <cstdint>
#include <vector>

#include "interlace/base/errors.hpp"
#include "plan/json_reader.hpp"

namespace interlace::plan {
namespace {

constexpr const char* block_profile_kind = "interlace block profile";
constexpr std::uint64_t block_profile_format = 1;

block_class class_of(const json_value& read, const std::vector<block_class>& rest) {
  const auto* members = read.as<json_value::object>();
  if (members == nullptr) throw usage_error("a class has the wrong type");
  const auto bytes = json_member<std::uint64_t>(*members, "bytes");
  block_class made = class_at(rest, static_cast<double>(bytes));
  made.bytes = bytes;
  const auto& ways = json_member<json_value::object>(*members, "ways");
  for (std::size_t way = 0; way < block_ways; ++way) {
    const char* const name = name_of(static_cast<block_way>(way));
    if (ways.find(name) == ways.end()) continue;
    const auto& one = json_member<json_value::object>(ways, name);
    made.ways.at(way) = {1e-3 * static_cast<double>(json_member<std::uint64_t>(one, "start_ns")),
                         1e-6 * static_cast<double>(json_member<std::uint64_t>(one, "block_ps"))};
  }
  return made;
}

block_costs costs_of(const json_value& read, const block_costs& rest) {
  const json_value::object& top = profile_members(read, block_profile_kind, block_profile_format);
  const auto& directions = json_member<json_value::object>(top, "directions");
  block_costs made = rest;
  for (std::size_t at = 0; at < block_directions; ++at) {
    const char* const name = name_of(static_cast<block_direction>(at));
    if (directions.find(name) == directions.end()) continue;
    std::vector<block_class> classes;
    for (const json_value& each : json_member<std::vector<json_value>>(directions, name)) {
      classes.push_back(class_of(each, rest.classes.at(at)));
      if (classes.back().bytes == 0 ||
          (classes.size() > 1 && classes.back().bytes <= classes[classes.size() - 2].bytes))
        throw usage_error(std::string("the classes of ") + name + " do not ascend");
    }
    if (!classes.empty()) made.classes.at(at) = std::move(classes);
  }
  return made;
}

}  // namespace

block_costs read_block_profile(const std::string& text, const std::string& name,
                               const block_costs& rest) {
  try {
    return costs_of(read_json(text), rest);
  } catch (const usage_error& error) {
    throw usage_error("the block profile " + name + " cannot be used: " + error.what() +
                      "; make it anew with interlace tune blocks");
  }
}

}  // namespace interlace::plan
