#include "plan/copy_profile.hpp"

#include <algorithm>
#include <limits>

#include "interlace/base/errors.hpp"
#include "plan/json_reader.hpp"
#include "plan/profile_path.hpp"

namespace interlace::plan {
namespace {

constexpr const char* profile_kind = "interlace copy profile";
constexpr std::uint64_t profile_format = 1;
constexpr std::array<const char*, copy_direction_count> direction_names{
    "host-to-gpu", "gpu-to-host", "gpu-to-gpu"};

copy_choice choice_of(const json_value& read) {
  const auto* members = read.as<json_value::object>();
  if (members == nullptr) throw usage_error("a class has the wrong type");
  copy_choice made;
  made.bytes = json_member<std::uint64_t>(*members, "bytes");
  const auto& paths = json_member<std::string>(*members, "paths");
  made.gpus = paths == "gpus" || paths == "gpus+host";
  made.host = paths == "host" || paths == "gpus+host";
  if (!made.gpus && !made.host && paths != "direct")
    throw usage_error("unknown paths '" + paths + "'; give gpus, host, gpus+host or direct");
  const std::uint64_t chunks = json_member<std::uint64_t>(*members, "chunks");
  if (chunks > most_copy_chunks)
    throw usage_error(std::to_string(chunks) + " chunks are too many; at most " +
                      std::to_string(most_copy_chunks) + " are possible");
  made.chunks = static_cast<std::uint32_t>(chunks);
  const auto& executor = json_member<std::string>(*members, "executor");
  if (executor == "streams")
    made.executor = copy_executor::streams;
  else if (executor == "graphs")
    made.executor = copy_executor::graphs;
  else if (executor != "auto")
    throw usage_error("unknown executor '" + executor + "'; give auto, streams or graphs");
  return made;
}

copy_profile copy_profile_of(const json_value& read) {
  const json_value::object& top = profile_members(read, profile_kind, profile_format);
  copy_profile made;
  const auto& on = json_member<json_value::object>(top, "machine");
  made.model = json_member<std::string>(on, "model");
  made.driver = json_member<std::string>(on, "driver");
  const auto gpus = json_member<std::uint64_t>(on, "gpus");
  made.gpus = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(gpus, std::numeric_limits<std::uint32_t>::max()));
  const auto& directions = json_member<json_value::object>(top, "directions");
  for (std::size_t at = 0; at < copy_direction_count; ++at) {
    const auto& one = json_member<json_value::object>(directions, direction_names[at]);
    for (const json_value& each : json_member<std::vector<json_value>>(one, "classes")) {
      const copy_choice choice = choice_of(each);
      if (!made.choices[at].empty() && choice.bytes <= made.choices[at].back().bytes)
        throw usage_error(std::string("the classes of ") + direction_names[at] + " do not ascend");
      made.choices[at].push_back(choice);
    }
  }
  return made;
}

}  // namespace

copy_direction direction_of(machine::endpoint from, machine::endpoint to) {
  if (from.kind == machine::endpoint_kind::host) return copy_direction::host_to_gpu;
  if (to.kind == machine::endpoint_kind::host) return copy_direction::gpu_to_host;
  return copy_direction::gpu_to_gpu;
}

copy_direction copy_direction_named(const std::string& name) {
  for (std::size_t at = 0; at < copy_direction_count; ++at)
    if (name == direction_names[at]) return static_cast<copy_direction>(at);
  throw usage_error("unknown direction '" + name +
                    "'; give host-to-gpu, gpu-to-host or gpu-to-gpu");
}

std::string paths_name(const copy_choice& choice) {
  if (choice.gpus) return choice.host ? "gpus+host" : "gpus";
  return choice.host ? "host" : "direct";
}

copy_choice copy_profile::of(copy_direction direction, std::uint64_t bytes) const {
  const auto& all = choices[static_cast<std::size_t>(direction)];
  const auto behind =
      std::upper_bound(all.begin(), all.end(), bytes,
                       [](std::uint64_t size, const copy_choice& one) { return size < one.bytes; });
  return behind == all.begin() ? copy_choice{} : *(behind - 1);
}

std::uint64_t copy_profile::least_bytes() const {
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  for (const auto& all : choices)
    for (const copy_choice& one : all)
      if (one.gpus || one.host) least = std::min(least, one.bytes);
  return least;
}

std::vector<std::string> copy_profile::differences(const std::string& here, std::uint32_t gpus_here,
                                                   const std::string& driver_here) const {
  std::vector<std::string> found;
  if (model != here) found.push_back("it has " + model + ", but this machine has " + here);
  if (gpus != gpus_here)
    found.push_back("it has " + std::to_string(gpus) + " GPUs, but this machine has " +
                    std::to_string(gpus_here));
  if (driver != driver_here)
    found.push_back("it has driver " + driver + ", but this machine has " + driver_here);
  return found;
}

copy_profile read_copy_profile(const std::string& text, const std::string& name) {
  try {
    return copy_profile_of(read_json(text));
  } catch (const usage_error& error) {
    throw usage_error("the copy profile " + name + " cannot be used: " + error.what() +
                      "; make it anew with interlace tune copy");
  }
}

std::optional<std::string> copy_profile_path(
    const std::string& model,
    const std::function<std::optional<std::string>(const std::string&)>& value_of) {
  return profile_path("copy", model, value_of);
}

}  // namespace interlace::plan
