// The keys of machine files. `key_list` in keys.cpp is the only list of keys. These are made from
// the list: the binding, both validations (in C++ and in Python), the reader, the writer and
// docs/reference/machine-files.md. A new key takes a row in the list and a field in machine.hpp.
// tools/machine_keys.py then generates the Python file and the documentation page.
//
// Values pass between files and structs in the file's unit, which is a part of each key's name. A
// struct holds bytes, picoseconds, hertz, and bytes per second.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "interlace/machine/machine.hpp"

namespace interlace::machine {

enum class key_type : std::uint8_t {
  whole,     // a whole number
  number,    // any number
  text,      // a text of up to `within` characters
  name,      // a name of lower-case letters, digits and _ that begins with a letter
  choice,    // one of a few words
  protocol,  // the name of a table [protocol.NAME]
  ends,      // two devices, or two groups of devices
};

// Whether a file must have a key or a table.
enum class need : std::uint8_t {
  required,
  optional,  // can be left out; without the key, the field is 0
  preset,    // can be left out; without the key, the field has the preset
  pcie,      // required for PCIe protocols, and not allowed for other protocols
  pcie_only,
  nvlink_only,
  named,  // for tables: any number of them, each with a name, as in [protocol.pcie4]
  list,   // for tables: any number of them, without names, as in [[link]]
};

struct range {
  double least = 0;
  double most = 0;
  bool above_least = false;  // whether `least` itself is excluded
};

// A field of a struct.
using field = std::variant<std::uint32_t*, std::uint64_t*, double*, bool*, block_dispatch*,
                           protocol_kind*, std::string*>;

// The field of a key. There is a member for each kind of owner, and only the member for the key's
// owner is set. If the struct stores the key in another form, no member is set.
struct field_of {
  field (*of_machine)(machine&) = nullptr;
  field (*of_protocol)(protocol&) = nullptr;
  field (*of_switch)(network_switch&) = nullptr;
  field (*of_link)(link&) = nullptr;
  // The path of the member in C++, from the owner, such as "gpu.l2.bytes".
  std::string_view member = {};
};

struct key {
  // name of the key's table, such as "gpu.l2" or "link"; empty at the top of the file
  std::string_view table;
  std::string_view name;  // name of the key with its unit, such as "size_KiB"
  key_type type;
  range within;
  // The allowed values, such as "64|128" or "through|back". Words are in the order of the field's
  // values.
  std::string_view choices;
  need given;
  std::string_view preset;
  std::string_view meaning;
  field_of field;
};

struct table {
  std::string_view name;
  std::string_view title;  // name of the table's struct in Python, such as "ScalarL1"
  need given;
  // For an optional table: the key whose field is 0 if the table is missing.
  std::string_view marker;
  std::string_view meaning;
};

// A condition on keys. Values are compared in the units of the structs.
enum class rule_kind : std::uint8_t {
  power_of_two,       // the key is a power of two
  power_of_two_of,    // the key is the other key times a power of two
  same,               // the key equals the other key
  divides,            // the other key is a multiple of the key
  multiple,           // the key is a multiple of the product of the other keys
  at_most,            // the key is at most `times` the other key
  less,               // the key is less than the other key
  at_least_together,  // the key is at least the sum of the other keys
  needs,              // if the file has table `key`, the file must have table `others`
};

struct rule {
  rule_kind kind;
  std::string_view key;     // name of the key, such as "gpu.l2.size_KiB"
  std::string_view others;  // the other keys, separated by spaces
  double times;
  std::string_view meaning;  // reason for the rule, for the reference page
};

std::span<const key> machine_keys();
std::span<const table> machine_tables();
std::span<const rule> machine_rules();

// The unit in a key's name, and the factor from this unit to the unit of the struct.
struct unit {
  std::string_view text;  // such as "GB/s"; empty if the key is a count
  double in_struct = 1;   // factor, such as 1e9
};
unit unit_of(std::string_view name);

// A value in the file's unit. It is std::monostate if an optional key or table is left out.
using key_value = std::variant<std::monostate, std::int64_t, double, std::string>;

key_value value_of(const key& one, field at);
// Sets a field. Throws `usage_error` for a value that the field cannot hold.
void set_value(const key& one, field at, const key_value& value);

// The value as it is written in a file, such as "0.1", but without quotation marks.
std::string text_of(const key_value& value);

// The name of a key in errors and on the command line, such as "gpu.l2.size_KiB".
std::string full_name(const key& one);

// The row of the key with this full name, such as "gpu.l2.size_KiB". Returns null if there is no
// such key.
const key* find_key(std::string_view full);

// The field of a key in this owner. There is no value if the owner has no such field.
std::optional<field> field_in(const key& one, machine& owner);
std::optional<field> field_in(const key& one, protocol& owner);
std::optional<field> field_in(const key& one, network_switch& owner);
std::optional<field> field_in(const key& one, link& owner);

// Whether protocols of this kind have the key. Some keys are only for PCIe, and some keys are only
// for NVLink.
bool applies(const key& one, const protocol& rules);

// Whether the machine file that describes `owner` has the table `name`, such as "gpu.tlb". An
// optional table is missing if the field of its marker is 0. All other tables are always there.
bool has_table(std::string_view name, machine& owner);

}  // namespace interlace::machine
