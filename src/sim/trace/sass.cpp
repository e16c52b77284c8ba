#include "sim/trace/sass.hpp"

#include <array>
#include <utility>

#include "base/cut_text.hpp"
#include "sim/trace/words.hpp"

namespace interlace::sim::trace {

namespace {

struct entry {
  std::string_view name;
  opcode_kind kind;
  action what;
  bool generic;
};

constexpr std::array<entry, 36> entries{{
    {"LDG", opcode_kind::access, action::load, false},
    {"LD", opcode_kind::access, action::load, true},
    {"LDGSTS", opcode_kind::access, action::load, false},
    {"STG", opcode_kind::access, action::store, false},
    {"ST", opcode_kind::access, action::store, true},
    {"ATOM", opcode_kind::access, action::atomic, true},
    {"ATOMG", opcode_kind::access, action::atomic, false},
    {"RED", opcode_kind::access, action::atomic, false},
    {"REDG", opcode_kind::access, action::atomic, false},
    {"LDS", opcode_kind::elsewhere, action::load, false},
    {"LDSM", opcode_kind::elsewhere, action::load, false},
    {"STS", opcode_kind::elsewhere, action::store, false},
    {"STSM", opcode_kind::elsewhere, action::store, false},
    {"ATOMS", opcode_kind::elsewhere, action::atomic, false},
    {"LDL", opcode_kind::elsewhere, action::load, false},
    {"STL", opcode_kind::elsewhere, action::store, false},
    {"LDC", opcode_kind::elsewhere, action::load, false},
    {"ULDC", opcode_kind::elsewhere, action::load, false},
    {"LDCU", opcode_kind::elsewhere, action::load, false},
    {"TEX", opcode_kind::elsewhere, action::load, false},
    {"TLD", opcode_kind::elsewhere, action::load, false},
    {"TLD4", opcode_kind::elsewhere, action::load, false},
    {"SULD", opcode_kind::elsewhere, action::load, false},
    {"SUST", opcode_kind::elsewhere, action::store, false},
    {"MEMBAR", opcode_kind::fence, action::release, false},
    {"BAR", opcode_kind::barrier, action::barrier, false},
    {"UBLKCP", opcode_kind::bulk, action::load, false},
    {"UBLKRED", opcode_kind::bulk, action::load, false},
    {"UTMALDG", opcode_kind::bulk, action::load, false},
    {"UTMASTG", opcode_kind::bulk, action::load, false},
    {"UTMAREDG", opcode_kind::bulk, action::load, false},
    {"UTMACCTL", opcode_kind::other, action::load, false},
    {"UBLKPF", opcode_kind::other, action::load, false},  // a warp gets no data from a prefetch
    {"UTMAPF", opcode_kind::other, action::load, false},
    {"CCTL", opcode_kind::elsewhere, action::load, false},
    {"RET", opcode_kind::other, action::load, false},
}};

// Finds the kind by the first letters of the name.
operation computed_by(std::string_view name) {
  if (name.substr(0, 4) == "MUFU") return operation::special;
  if (name.empty()) return operation::integer;
  if (name[0] == 'D' && name != "DEPBAR") return operation::fp64;
  if ((name[0] == 'F' && name.substr(0, 3) != "FLO") || name[0] == 'H') return operation::fp32;
  return operation::integer;
}

// The number of bits of an element that a modifier states, for example "128", "U16", "S8" or "F64".
// For other modifiers the result is 0.
std::uint32_t bits_of(std::string_view modifier) {
  if (!modifier.empty() && (modifier[0] == 'U' || modifier[0] == 'S' || modifier[0] == 'F')) {
    modifier.remove_prefix(1);
  }
  const auto bits = number_of<std::uint32_t>(modifier);
  return bits && (*bits == 8 || *bits == 16 || *bits == 32 || *bits == 64 || *bits == 128) ? *bits
                                                                                           : 0;
}

}  // namespace

opcode read_opcode(std::string_view name) {
  opcode found;
  const std::string_view base = cut_text(name, '.');
  const entry* known = nullptr;
  for (const entry& e : entries) {
    if (e.name == base) known = &e;
  }
  if (known == nullptr || known->kind == opcode_kind::other) {
    found.computes = computed_by(base);
    return found;
  }
  found.kind = known->kind;
  found.what = known->what;
  found.generic = known->generic;
  bool arrives = false;
  std::uint32_t bits = 0;
  while (!name.empty()) {
    const std::string_view modifier = cut_text(name, '.');
    if (modifier == "SYS") found.scope = scope::system;
    if (modifier == "GPU" || modifier == "VC") found.scope = scope::device;
    if (modifier == "CTA" || modifier == "SM") found.scope = scope::block;
    if (modifier == "ARV") arrives = true;
    if (bits == 0) bits = bits_of(modifier);
    // A modifier that ends in "x2" means packed halves in an atomic, such as F16x2 and BF16x2.
    if (bits == 0 && modifier.size() > 2 && modifier.substr(modifier.size() - 2) == "x2") bits = 32;
  }
  // An instruction that only arrives at a barrier does not wait for other warps.
  if (found.kind == opcode_kind::barrier && arrives) found.kind = opcode_kind::other;
  found.bytes = static_cast<std::uint8_t>(bits == 0 ? 4 : bits / 8);
  return found;
}

}  // namespace interlace::sim::trace
