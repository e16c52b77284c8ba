#include "interlace/kernel/variants.hpp"

#include <algorithm>
#include <span>
#include <string>

#include "interlace/base/errors.hpp"
#include "interlace/kernel/mechanism.hpp"

namespace interlace::kernel {

namespace {

static_assert(collective_names.size() == static_cast<std::size_t>(collective::send_receive) + 1);
static_assert(memory_hint_names.size() == static_cast<std::size_t>(memory_hint::accessed_by) + 1);
static_assert(agent_copy_names.size() == static_cast<std::size_t>(agent_copy::bulk) + 1);

template <class Value>
Value parse(std::span<const char* const> names, const std::string& name, const std::string& what) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found != names.end()) return static_cast<Value>(found - names.begin());
  std::string known;
  for (const char* text : names) known += known.empty() ? text : std::string(", ") + text;
  throw usage_error("unknown " + what + "; give one of " + known);
}

}  // namespace

const char* collective_name(collective c) {
  return collective_names.at(static_cast<std::size_t>(c));
}
collective parse_collective(const std::string& name) {
  return parse<collective>(
      collective_names, name,
      std::string("collective of ") + mechanism_name(mechanism::nccl) + " '" + name + "'");
}

const char* memory_hint_name(memory_hint h) {
  return memory_hint_names.at(static_cast<std::size_t>(h));
}
memory_hint parse_memory_hint(const std::string& name) {
  return parse<memory_hint>(
      memory_hint_names, name,
      std::string("hint of ") + mechanism_name(mechanism::unified_memory) + " '" + name + "'");
}

agent_copy parse_agent_copy(const std::string& name) {
  return parse<agent_copy>(agent_copy_names, name, "way '" + name + "' of an agent to copy");
}

}  // namespace interlace::kernel
