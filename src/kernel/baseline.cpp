#include "kernel/baseline.hpp"

#include <array>
#include <utility>

#include "base/errors.hpp"

namespace interlace::kernel {

namespace {

template <class Value>
using names = std::array<std::pair<Value, const char*>, 4>;

constexpr names<collective> collectives{{
    {collective::best_fitting, "best-fitting"},
    {collective::all_gather, "all-gather"},
    {collective::broadcast, "broadcast"},
    {collective::send_receive, "send-receive"},
}};
constexpr names<memory_hint> hints{{
    {memory_hint::none, "none"},
    {memory_hint::read_mostly, "read-mostly"},
    {memory_hint::preferred_location, "preferred-location"},
    {memory_hint::accessed_by, "accessed-by"},
}};

template <class Value>
const char* name_of(const names<Value>& all, Value wanted) {
  for (const auto& [value, name] : all) {
    if (value == wanted) return name;
  }
  throw model_error("a baseline's configuration without a name");
}

template <class Value>
Value parse(const names<Value>& all, const std::string& name, const char* what) {
  std::string known;
  for (const auto& [value, text] : all) {
    if (name == text) return value;
    known += known.empty() ? text : std::string(", ") + text;
  }
  throw usage_error(std::string("unknown ") + what + " '" + name + "'; there are " + known);
}

}  // namespace

const char* collective_name(collective c) { return name_of(collectives, c); }
collective parse_collective(const std::string& name) {
  return parse(collectives, name, "collective of nccl");
}

const char* memory_hint_name(memory_hint h) { return name_of(hints, h); }
memory_hint parse_memory_hint(const std::string& name) {
  return parse(hints, name, "hint of unified-memory");
}

}  // namespace interlace::kernel
