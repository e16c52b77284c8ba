// Converts between the fields of the structs and the values in a file. Values have the file's
// units.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <type_traits>

#include "interlace/base/errors.hpp"
#include "machine/copy_rate.hpp"
#include "machine/keys.hpp"

namespace interlace::machine {
namespace {

struct unit_word {
  std::string_view word;  // part of a key's name, between underscores
  unit is;
};

constexpr std::array unit_words{
    unit_word{"bytes", {"bytes", 1}},     unit_word{"KiB", {"KiB", 1024}},
    unit_word{"GiB", {"GiB", 1 << 30}},   unit_word{"MHz", {"MHz", 1e6}},
    unit_word{"ns", {"ns", 1e3}},         unit_word{"us", {"us", 1e6}},
    unit_word{"GB", {"GB/s", 1e9}},       unit_word{"clocks", {"clocks", 1}},
    unit_word{"clock", {"per clock", 1}}, unit_word{"lanes", {"lanes", 1}},
};

template <class Each>  // `each` is called with one part after another, until it returns true
bool any_part(std::string_view text, char separator, Each&& each) {
  for (;;) {
    const std::size_t end = text.find(separator);
    if (each(text.substr(0, end))) return true;
    if (end == std::string_view::npos) return false;
    text.remove_prefix(end + 1);
  }
}

// The shortest decimal number that `is_it` accepts.
template <class Accepts>
double shortest(double value, int digits, Accepts&& is_it) {
  for (;; ++digits) {
    std::array<char, 40> text{};
    std::snprintf(text.data(), text.size(), "%.*g", digits, value);
    const double found = std::strtod(text.data(), nullptr);
    if (digits >= 17 || is_it(found)) return found;
  }
}

key_value whole_if_it_is(double value) {
  constexpr double most = 9e15;  // doubles represent all whole numbers up to this number
  if (value == std::floor(value) && std::abs(value) < most) return static_cast<std::int64_t>(value);
  return value;
}

std::string_view word_at(const key& one, std::uint64_t index) {
  std::string_view found;
  any_part(one.choices, '|', [&](std::string_view word) {
    found = word;
    return index-- == 0;
  });
  return found;
}

[[noreturn]] void refuse(const key& one, const key_value& value) {
  throw usage_error(full_name(one) + " cannot be " + text_of(value));
}

std::uint64_t index_of(const key& one, const key_value& value) {
  const auto* const word = std::get_if<std::string>(&value);
  std::uint64_t index = 0;
  const bool found = word != nullptr && any_part(one.choices, '|', [&](std::string_view choice) {
                       if (choice == *word) return true;
                       ++index;
                       return false;
                     });
  if (!found) refuse(one, value);
  return index;
}

double number_in(const key& one, const key_value& value) {
  if (const auto* const whole = std::get_if<std::int64_t>(&value))
    return static_cast<double>(*whole);
  if (const auto* const number = std::get_if<double>(&value)) return *number;
  refuse(one, value);
}

template <class Owner>
std::optional<field> at(field (*of)(Owner&), Owner& owner) {
  if (of == nullptr) return std::nullopt;
  return of(owner);
}

}  // namespace

unit unit_of(std::string_view name) {
  unit found{};
  any_part(name, '_', [&](std::string_view part) {
    for (const unit_word& one : unit_words)
      if (one.word == part) found = one.is;  // the last unit in the name counts
    return false;
  });
  return found;
}

key_value value_of(const key& one, field at) {
  const double factor = unit_of(one.name).in_struct;
  const key_value found = std::visit(
      [&](const auto* it) -> key_value {
        using held = std::remove_cvref_t<decltype(*it)>;
        if constexpr (std::is_same_v<held, std::string>) {
          return *it;
        } else if constexpr (std::is_same_v<held, double>) {
          return whole_if_it_is(
              shortest(*it / factor, 3, [&](double value) { return value * factor == *it; }));
        } else if constexpr (std::is_same_v<held, bool> || std::is_enum_v<held>) {
          return std::string(word_at(one, static_cast<std::uint64_t>(*it)));
        } else {
          if (factor == 1) return static_cast<std::int64_t>(*it);
          const auto whole = static_cast<double>(*it);
          return whole_if_it_is(shortest(whole / factor, 3, [&](double value) {
            return std::nearbyint(value * factor) == whole;
          }));
        }
      },
      at);
  const bool left_out =
      one.given == need::optional || one.given == need::pcie_only || one.given == need::nvlink_only;
  if (left_out && found == key_value(std::int64_t{0})) return std::monostate{};
  return found;
}

void set_value(const key& one, field at, const key_value& value) {
  std::visit(
      [&](auto* it) {
        using held = std::remove_cvref_t<decltype(*it)>;
        if constexpr (std::is_same_v<held, std::string>) {
          const auto* const words = std::get_if<std::string>(&value);
          if (words == nullptr) refuse(one, value);
          *it = *words;
        } else if constexpr (std::is_same_v<held, bool> || std::is_enum_v<held>) {
          *it = static_cast<held>(index_of(one, value));
        } else if constexpr (std::is_same_v<held, double>) {
          *it = number_in(one, value) * unit_of(one.name).in_struct;
        } else {
          const double made = std::nearbyint(number_in(one, value) * unit_of(one.name).in_struct);
          // Doubles above 2^53 are not exact, and no key allows such values.
          const double most = std::min(9e18, static_cast<double>(std::numeric_limits<held>::max()));
          if (!(made >= 0 && made <= most)) refuse(one, value);
          *it = static_cast<held>(made);
        }
      },
      at);
}

std::string text_of(const key_value& value) {
  if (const auto* const whole = std::get_if<std::int64_t>(&value)) return std::to_string(*whole);
  if (const auto* const words = std::get_if<std::string>(&value)) return *words;
  const auto* const number = std::get_if<double>(&value);
  if (number == nullptr) return "left out";
  for (int digits = 12;; ++digits) {
    std::array<char, 40> text{};
    std::snprintf(text.data(), text.size(), "%.*g", digits, *number);
    if (digits >= 17 || std::strtod(text.data(), nullptr) == *number) return text.data();
  }
}

std::string full_name(const key& one) {
  if (one.table.empty()) return std::string(one.name);
  return std::string(one.table) + "." + std::string(one.name);
}

const key* find_key(std::string_view full) {
  const std::size_t point = full.rfind('.');
  const bool top = point == std::string_view::npos;
  const std::string_view table = top ? std::string_view{} : full.substr(0, point);
  const std::string_view name = top ? full : full.substr(point + 1);
  for (const key& one : machine_keys())
    if (one.table == table && one.name == name) return &one;
  return nullptr;
}

std::optional<field> field_in(const key& one, machine& owner) {
  return at(one.field.of_machine, owner);
}

std::optional<field> field_in(const key& one, protocol& owner) {
  return at(one.field.of_protocol, owner);
}

std::optional<field> field_in(const key& one, network_switch& owner) {
  return at(one.field.of_switch, owner);
}

std::optional<field> field_in(const key& one, link& owner) { return at(one.field.of_link, owner); }

bool applies(const key& one, const protocol& rules) {
  if (is_pcie(rules.kind)) return one.given != need::nvlink_only;
  return one.given != need::pcie && one.given != need::pcie_only;
}

bool has_table(std::string_view name, machine& owner) {
  for (const table& one : machine_tables()) {
    if (one.name != name || one.given != need::optional) continue;
    const key* const marker = find_key(std::string(name) + "." + std::string(one.marker));
    const std::optional<field> found = field_in(*marker, owner);
    return value_of(*marker, *found) != key_value(std::int64_t{0});
  }
  return true;
}

}  // namespace interlace::machine
