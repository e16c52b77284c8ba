#include "plan/copy_profile.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <limits>
#include <map>
#include <string_view>
#include <utility>
#include <variant>

#include "interlace/base/errors.hpp"

namespace interlace::plan {
namespace {

constexpr const char* profile_kind = "interlace copy profile";
constexpr std::uint64_t profile_format = 1;
constexpr std::array<const char*, copy_direction_count> direction_names{
    "host-to-gpu", "gpu-to-host", "gpu-to-gpu"};

// A value of a JSON text (RFC 8259). Numbers that are not integers are dropped, because no choice
// contains such a number.
struct json_value {
  using object = std::map<std::string, json_value>;
  std::variant<std::monostate, bool, std::uint64_t, std::string, std::vector<json_value>, object>
      held;

  template <class Type>
  const Type* as() const {
    return std::get_if<Type>(&held);
  }
};

class json_reader {
 public:
  explicit json_reader(std::string_view text) : rest_(text) {}

  json_value whole() {
    json_value read = next(0);
    space();
    if (!rest_.empty()) throw usage_error("there is text after its end");
    return read;
  }

 private:
  static constexpr int most_depth = 64;

  void space() {
    const auto first = rest_.find_first_not_of(" \t\r\n");
    rest_.remove_prefix(first == std::string_view::npos ? rest_.size() : first);
  }
  bool take(char letter) {
    space();
    if (rest_.empty() || rest_.front() != letter) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void need(char letter) {
    if (!take(letter))
      throw usage_error(std::string("there is no '") + letter + "' where one belongs");
  }
  bool take(std::string_view word) {
    if (rest_.substr(0, word.size()) != word) return false;
    rest_.remove_prefix(word.size());
    return true;
  }

  // Escapes are not decoded, because no name or word of a profile has one.
  std::string text() {
    need('"');
    std::size_t end = 0;
    while (end < rest_.size() && rest_[end] != '"') end += rest_[end] == '\\' ? 2 : 1;
    if (end >= rest_.size()) throw usage_error("a text has no end");
    std::string read(rest_.substr(0, end));
    rest_.remove_prefix(end + 1);
    return read;
  }

  json_value number() {
    const auto end = std::min(rest_.find_first_not_of("+-.0123456789eE"), rest_.size());
    const std::string_view digits = rest_.substr(0, end);
    if (digits.empty()) throw usage_error("something is not a value");
    rest_.remove_prefix(end);
    std::uint64_t read = 0;
    const auto [last, error] = std::from_chars(digits.data(), digits.data() + digits.size(), read);
    if (error != std::errc() || last != digits.data() + digits.size()) return {};
    return {read};
  }

  json_value next(int depth) {
    if (depth > most_depth) throw usage_error("it is nested too deeply");
    space();
    if (take("true")) return {true};
    if (take("false")) return {false};
    if (take("null")) return {};
    if (rest_.empty()) throw usage_error("it ends too early");
    if (rest_.front() == '"') return {text()};
    if (take('[')) {
      std::vector<json_value> all;
      if (take(']')) return {std::move(all)};
      do all.push_back(next(depth + 1));
      while (take(','));
      need(']');
      return {std::move(all)};
    }
    if (take('{')) {
      json_value::object all;
      if (take('}')) return {std::move(all)};
      do {
        space();
        std::string key = text();
        need(':');
        all.insert_or_assign(std::move(key), next(depth + 1));
      } while (take(','));
      need('}');
      return {std::move(all)};
    }
    return number();
  }

  std::string_view rest_;
};

template <class Type>
const Type& json_member(const json_value::object& of, const char* name) {
  const auto found = of.find(name);
  if (found == of.end()) throw usage_error(std::string("it has no ") + name);
  const Type* held = found->second.as<Type>();
  if (held == nullptr) throw usage_error(std::string(name) + " has the wrong type");
  return *held;
}

copy_choice choice_of(const json_value& read) {
  const auto* members = read.as<json_value::object>();
  if (members == nullptr) throw usage_error("a class has the wrong type");
  copy_choice made;
  made.bytes = json_member<std::uint64_t>(*members, "bytes");
  const auto& paths = json_member<std::string>(*members, "paths");
  made.gpus = paths == "gpus" || paths == "gpus+host";
  made.host = paths == "host" || paths == "gpus+host";
  if (!made.gpus && !made.host && paths != "direct")
    throw usage_error("there are no paths '" + paths + "'");
  const std::uint64_t chunks = json_member<std::uint64_t>(*members, "chunks");
  if (chunks > most_copy_chunks)
    throw usage_error("chunks are " + std::to_string(chunks) + ", and " +
                      std::to_string(most_copy_chunks) + " at most");
  made.chunks = static_cast<std::uint32_t>(chunks);
  const auto& executor = json_member<std::string>(*members, "executor");
  if (executor == "streams")
    made.executor = copy_executor::streams;
  else if (executor == "graphs")
    made.executor = copy_executor::graphs;
  else if (executor != "auto")
    throw usage_error("there is no executor '" + executor + "'");
  return made;
}

copy_profile copy_profile_of(const json_value& read) {
  const auto* top = read.as<json_value::object>();
  const auto found = top == nullptr ? json_value::object::const_iterator() : top->find("kind");
  if (top == nullptr || found == top->end() || found->second.as<std::string>() == nullptr ||
      *found->second.as<std::string>() != profile_kind)
    throw usage_error("it is none");
  if (const auto given = json_member<std::uint64_t>(*top, "format"); given != profile_format)
    throw usage_error("its format is " + std::to_string(given) + ", and this version reads " +
                      std::to_string(profile_format));
  copy_profile made;
  const auto& on = json_member<json_value::object>(*top, "machine");
  made.model = json_member<std::string>(on, "model");
  made.driver = json_member<std::string>(on, "driver");
  const auto gpus = json_member<std::uint64_t>(on, "gpus");
  made.gpus = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(gpus, std::numeric_limits<std::uint32_t>::max()));
  const auto& directions = json_member<json_value::object>(*top, "directions");
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
  throw usage_error("there is no direction '" + name +
                    "'; there are host-to-gpu, gpu-to-host and gpu-to-gpu");
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
  if (model != here) found.push_back("its GPUs are those of " + model + ", here of " + here);
  if (gpus != gpus_here)
    found.push_back("its machine has " + std::to_string(gpus) + " GPUs, this one " +
                    std::to_string(gpus_here));
  if (driver != driver_here) found.push_back("its driver is " + driver + ", here " + driver_here);
  return found;
}

copy_profile read_copy_profile(const std::string& text, const std::string& name) {
  try {
    return copy_profile_of(json_reader(text).whole());
  } catch (const usage_error& error) {
    throw usage_error("the copy profile " + name + " cannot be used: " + error.what() +
                      "; make it anew with interlace tune copy");
  }
}

std::optional<std::string> copy_profile_path(
    const std::string& model,
    const std::function<std::optional<std::string>(const std::string&)>& value_of) {
  std::string base;
  if (const auto stated = value_of("XDG_CONFIG_HOME"); stated && stated->front() == '/')
    base = *stated;
  else if (const auto home = value_of("HOME"))
    base = *home + "/.config";
  else
    return std::nullopt;
  // The function in profiles.py uses the same rule to turn a name into a word of the path.
  std::string word;
  for (const char letter : model) {
    const auto code = static_cast<unsigned char>(letter);
    if (code < 0x80 && (std::isalnum(code) != 0 || letter == '.'))
      word.push_back(static_cast<char>(std::tolower(code)));
    else if (word.empty() || word.back() != '-')
      word.push_back('-');
  }
  const auto first = word.find_first_not_of("-.");
  const auto last = word.find_last_not_of("-.");
  word = first == std::string::npos ? "" : word.substr(first, last - first + 1);
  return base + "/interlace/profiles/copy-" + word.substr(0, 40) + ".json";
}

}  // namespace interlace::plan
