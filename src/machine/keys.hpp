// The keys of machine files. `key_list` in keys.cpp is the only list of them. The binding, both
// validations (here and in Python), the reader, the writer and docs/reference/machine-files.md are
// made from it. A new key takes a row there and a field in machine.hpp. tools/machine_keys.py then
// generates the Python file and the documentation page.
//
// Values pass between files and structs in the file's unit, which is a part of each key's name. A
// struct holds bytes, picoseconds, hertz and bytes a second.
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
  text,      // a string of up to `within` characters
  name,      // a string of lower-case letters, digits and _ that begins with a letter
  choice,    // one of a few words
  protocol,  // the name of a table [protocol.NAME]
  ends,      // two devices, or groups of them
};

// Whether a file must have a key or a table.
enum class need : std::uint8_t {
  required,
  optional,  // can be left out: the field is then 0
  preset,    // can be left out: the field then has the preset
  pcie,      // required for PCIe protocols, and not allowed for others
  pcie_only,
  nvlink_only,
  named,  // tables: any number, each with a name: [protocol.pcie4]
  list,   // tables: any number, without names: [[link]]
};

struct range {
  double least = 0;
  double most = 0;
  bool above_least = false;  // `least` itself is not allowed
};

// A field of a struct.
using field = std::variant<std::uint32_t*, std::uint64_t*, double*, bool*, block_dispatch*,
                           protocol_kind*, std::string*>;

// How to find the field in each owner. Only the member of the key's owner is set. None is set if
// the struct stores the key in another form.
struct field_of {
  field (*of_machine)(machine&) = nullptr;
  field (*of_protocol)(protocol&) = nullptr;
  field (*of_switch)(network_switch&) = nullptr;
  field (*of_link)(link&) = nullptr;
  std::string_view member = {};  // in C++, from the owner: "gpu.l2.bytes"
};

struct key {
  std::string_view table;  // "gpu.l2", "link"; "" at the top of the file
  std::string_view name;   // with the unit: "size_KiB"
  key_type type;
  range within;
  std::string_view choices;  // "through|back" in the order of the field's values, or "64|128"
  need given;
  std::string_view preset;
  std::string_view meaning;
  field_of field;
};

struct table {
  std::string_view name;
  std::string_view title;  // "ScalarL1", also the name of the struct in Python
  need given;
  std::string_view
      marker;  // for an optional table: the key whose field is 0 where the table is missing
  std::string_view meaning;
};

// A condition between keys. Values are compared in the units of the structs.
enum class rule_kind : std::uint8_t {
  power_of_two,       // the key
  power_of_two_of,    // the key is the other key times a power of two
  same,               // the key is the other
  divides,            // the other is a multiple of the key
  multiple,           // the key is a multiple of the product of the others
  at_most,            // the key is at most `times` the other
  less,               // the key is less than the other
  at_least_together,  // the key is at least the sum of the others
  needs,              // if the file has the table, it must have the other table
};

struct rule {
  rule_kind kind;
  std::string_view key;     // "gpu.l2.size_KiB"
  std::string_view others;  // separated by spaces
  double times;
  std::string_view meaning;  // why, for the reference page
};

std::span<const key> machine_keys();
std::span<const table> machine_tables();
std::span<const rule> machine_rules();

// The unit in a key's name, and its value in the unit of the struct.
struct unit {
  std::string_view text;  // "GB/s"; empty if the key is a count
  double in_struct = 1;   // 1e9
};
unit unit_of(std::string_view name);

// A value in the file's unit; nothing where an optional key or table is left out.
using key_value = std::variant<std::monostate, std::int64_t, double, std::string>;

key_value value_of(const key& one, field at);
// Throws `usage_error` for a value that the field cannot hold.
void set_value(const key& one, field at, const key_value& value);

// The value as written in a file, without quotation marks: "0.1".
std::string text_of(const key_value& value);

// The name that errors and the command line use: "gpu.l2.size_KiB".
std::string full_name(const key& one);

// The row of "gpu.l2.size_KiB", or null.
const key* find_key(std::string_view full);

// The field of a row, if the owner has one.
std::optional<field> field_in(const key& one, machine& owner);
std::optional<field> field_in(const key& one, protocol& owner);
std::optional<field> field_in(const key& one, network_switch& owner);
std::optional<field> field_in(const key& one, link& owner);

// Whether protocols of this kind have the key: some keys are only for PCIe or only for NVLink.
bool applies(const key& one, const protocol& rules);

// Whether a file of this machine has the table, such as "gpu.tlb". The marker of an optional table
// decides.
bool has_table(std::string_view name, machine& owner);

}  // namespace interlace::machine
