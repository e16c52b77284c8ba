#include "machine/header.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <set>
#include <string_view>
#include <type_traits>
#include <variant>

#include "machine/keys.hpp"

namespace interlace::machine {
namespace {

std::string literal(double value) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%.17g",
                value);  // enough digits to read the same number back
  return text.data();
}

std::string literal(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      quoted += {'\\', c};
    } else if (byte < 0x20 || byte == 0x7f || c == '?') {
      // two question marks can begin a trigraph
      std::array<char, 8> octal{};
      std::snprintf(octal.data(), octal.size(), "\\%03o", byte);
      quoted += octal.data();
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

std::string value_in(field at) {
  return std::visit(
      [](const auto* it) -> std::string {
        using held = std::remove_cvref_t<decltype(*it)>;
        if constexpr (std::is_same_v<held, std::string>) {
          return literal(std::string_view(*it));
        } else if constexpr (std::is_same_v<held, double>) {
          return literal(*it);
        } else if constexpr (std::is_same_v<held, bool>) {
          return *it ? "true" : "false";
        } else if constexpr (std::is_enum_v<held>) {
          const char* type =
              std::is_same_v<held, protocol_kind> ? "protocol_kind" : "block_dispatch";
          return std::string("static_cast<interlace::machine::") + type + ">(" +
                 std::to_string(static_cast<unsigned>(*it)) + ")";
        } else {
          return std::to_string(*it);
        }
      },
      at);
}

// Writes a line for each key of the owner that is stored in a field. The line shows the key as in a
// machine file.
template <class Owner>
void add_fields(std::string& to, std::string_view name, Owner& owner) {
  for (const key& one : machine_keys()) {
    const auto at = field_in(one, owner);
    if (!at) continue;
    to += "  ";
    to += name;
    to += '.';
    to += one.field.member;
    to += " = " + value_in(*at) + ";  // " + full_name(one) + '\n';
  }
}

std::string value_in(const endpoint& end) {
  constexpr std::array names{"gpu", "network_switch", "host"};
  return std::string("{interlace::machine::endpoint_kind::") +
         names.at(static_cast<std::size_t>(end.kind)) + ", " + std::to_string(end.index) + "}";
}

}  // namespace

std::string header_of(machine described, const std::string& function, const std::string& origin) {
  std::string text = "// Made by `interlace " + origin +
                     "`.\n#pragma once\n\n#include <interlace/machine/machine.hpp>\n\n"
                     "inline interlace::machine::machine " +
                     function + "() {\n  interlace::machine::machine m;\n";
  text += "  m.name = " + literal(std::string_view(described.name)) + ";\n";
  add_fields(text, "m", described);
  for (network_switch& between : described.switches) {
    text += "\n  m.switches.emplace_back();\n";
    add_fields(text, "m.switches.back()", between);
  }
  std::set<std::string> written;
  for (link& one : described.links) {
    const std::string name = "protocol_" + one.protocol_name;
    if (!written.insert(name).second) continue;
    text += "\n  interlace::machine::protocol " + name + ";\n";
    add_fields(text, name, one.protocol);
  }
  for (link& one : described.links) {
    text += "\n  m.links.emplace_back();\n  m.links.back().a = " + value_in(one.a) +
            ";\n  m.links.back().b = " + value_in(one.b) + ";\n";
    add_fields(text, "m.links.back()", one);
    text += "  m.links.back().protocol = protocol_" + one.protocol_name + ";\n";
  }
  return text + "  return m;\n}\n";
}

}  // namespace interlace::machine
