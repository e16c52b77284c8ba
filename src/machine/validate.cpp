#include "machine/validate.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <set>
#include <string_view>
#include <utility>

#include "machine/copy_rate.hpp"
#include "machine/keys.hpp"
#include "machine/route.hpp"

namespace interlace::machine {
namespace {

class problems {
 public:
  void require(bool holds, std::string sentence) {
    if (!holds) found_.push_back(std::move(sentence));
  }
  bool none() const { return found_.empty(); }
  std::vector<std::string> take() { return std::move(found_); }

 private:
  std::vector<std::string> found_;
};

template <class Each>
void each_part(std::string_view text, char separator, Each&& each) {
  while (!text.empty()) {
    const std::size_t end = text.find(separator);
    each(text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
  }
}

// --- single values -------------------------------------------------------------------------------

void check_choice(const std::string& value, std::string_view choices, const std::string& where,
                  problems& found) {
  bool known = false;
  std::string listed;
  std::size_t left = 0;
  each_part(choices, '|', [&](std::string_view) { ++left; });
  each_part(choices, '|', [&](std::string_view choice) {
    known = known || choice == value;
    --left;
    listed += std::string(choice) + (left > 1 ? ", " : left == 1 ? " or " : "");
  });
  found.require(known, where + " is " + value + "; it must be " + listed);
}

void check_range(const key& one, field at, const std::string& where, problems& found) {
  const key_value value = value_of(one, at);
  if (one.type != key_type::whole && one.type != key_type::number) return;
  if (std::holds_alternative<std::monostate>(value)) return;
  const auto* const whole = std::get_if<std::int64_t>(&value);
  const double number = whole == nullptr ? std::get<double>(value) : static_cast<double>(*whole);
  const std::string is = where + " is " + text_of(value) + "; it must be ";
  const double least = one.within.least;
  if (one.within.above_least)
    found.require(number > least, is + "more than " + text_of(least));
  else
    found.require(number >= least, is + "at least " + text_of(least));
  found.require(!(number > one.within.most), is + "at most " + text_of(one.within.most));
  if (one.type == key_type::whole && std::isfinite(number))
    found.require(number == std::floor(number), is + "a whole number");
  if (!one.choices.empty()) check_choice(text_of(value), one.choices, where, found);
}

// Checks the keys of this owner. `prefix` precedes the names of keys in errors.
template <class Owner>
void check_ranges(Owner& owner, const std::string& prefix, bool whole_names, machine& described,
                  problems& found) {
  for (const key& one : machine_keys()) {
    const std::optional<field> at = field_in(one, owner);
    if (!at || !has_table(one.table, described)) continue;
    check_range(one, *at, prefix + (whole_names ? full_name(one) : std::string(one.name)), found);
  }
}

// --- keys that go together -----------------------------------------------------------------------

// A key with its value, in the form that rules need.
struct measured {
  std::string name;
  double value = 0;  // value in the unit of the struct
  double unit = 1;   // unit of the file, expressed in the unit of the struct
  std::string text;  // value as text, in the unit of the file
};

// Returns the value of a key of `owner`, with its unit and its text. Returns nothing if the key
// belongs to another owner or is left out.
template <class Owner>
std::optional<measured> measure(std::string_view full, Owner& owner, machine& described) {
  const key* const one = find_key(full);
  const std::optional<field> at = one == nullptr ? std::nullopt : field_in(*one, owner);
  if (!at || !has_table(one->table, described)) return std::nullopt;
  const key_value value = value_of(*one, *at);
  if (std::holds_alternative<std::monostate>(value)) return std::nullopt;
  measured found;
  found.name = std::is_same_v<Owner, machine> ? std::string(full) : std::string(one->name);
  found.unit = unit_of(one->name).in_struct;
  found.text = text_of(value);
  if (const auto* const whole = std::get_if<std::uint32_t*>(&*at))
    found.value = **whole;
  else if (const auto* const large = std::get_if<std::uint64_t*>(&*at))
    found.value = static_cast<double>(**large);
  else if (const auto* const number = std::get_if<double*>(&*at))
    found.value = **number;
  return found;
}

bool power_of_two(double value) {
  return value >= 1 && value < 1e18 && std::has_single_bit(static_cast<std::uint64_t>(value));
}

bool is_multiple(double value, double of) { return of > 0 && std::fmod(value, of) == 0; }

// The text of the error if the rule is broken. Otherwise the text is empty.
std::string broken(const rule& one, const measured& key, const std::vector<measured>& others) {
  const std::string is = key.name + " is " + key.text;
  const auto in_unit = [&](double value) { return text_of(value / key.unit); };
  const auto which = [&] { return others[0].name + ", which is " + others[0].text; };
  double sum = 0;
  double product = 1;
  for (const measured& other : others) {
    sum += other.value;
    product *= other.value;
  }
  switch (one.kind) {
    case rule_kind::power_of_two:
      return power_of_two(key.value) ? "" : is + "; it must be a power of two";
    case rule_kind::power_of_two_of:
      if (is_multiple(key.value, product) && power_of_two(key.value / product)) return "";
      return is + "; it must be a power of two times " + which();
    case rule_kind::same:
      return key.value == product ? "" : is + "; it must be " + which();
    case rule_kind::divides:
      return is_multiple(product, key.value) ? "" : is + "; it must divide " + which();
    case rule_kind::multiple: {
      if (is_multiple(key.value, product)) return "";
      std::string names;
      for (const measured& other : others) names += (names.empty() ? "" : " x ") + other.name;
      return is + "; it must be a multiple of " + names + ", which is " + in_unit(product);
    }
    case rule_kind::at_most:
      if (key.value <= one.times * product) return "";
      if (one.times == 1) return is + "; it must be at most " + which();
      return is + "; it must be at most " + in_unit(one.times * product) + ", because " +
             others[0].name + " is " + others[0].text;
    case rule_kind::less:
      return key.value < product ? "" : is + "; it must be less than " + which();
    case rule_kind::at_least_together: {
      if (key.value >= sum) return "";
      std::string terms;
      for (const measured& other : others)
        terms += (terms.empty() ? "" : " and ") + other.name + " is " + other.text;
      return is + "; it must be at least " + in_unit(sum) + ", because " + terms;
    }
    case rule_kind::needs:
      break;
  }
  return "";
}

template <class Owner>
void check_rules(Owner& owner, const std::string& prefix, machine& described, problems& found) {
  for (const rule& one : machine_rules()) {
    if (one.kind == rule_kind::needs) {
      if (std::is_same_v<Owner, machine> && has_table(one.key, described))
        found.require(has_table(one.others, described), std::string(one.others) + " is missing; " +
                                                            std::string(one.key) + " needs it");
      continue;
    }
    const std::optional<measured> key = measure(one.key, owner, described);
    std::vector<measured> others;
    bool complete = key.has_value();
    each_part(one.others, ' ', [&](std::string_view name) {
      const std::optional<measured> other = measure(name, owner, described);
      if (other) others.push_back(*other);
      complete = complete && other.has_value();
    });
    if (!complete) continue;
    std::string sentence = broken(one, *key, others);
    found.require(sentence.empty(), prefix + sentence);
  }
}

// --- links ---------------------------------------------------------------------------------------

bool exists(const machine& described, endpoint end) {
  switch (end.kind) {
    case endpoint_kind::gpu:
      return end.index < described.gpu_count;
    case endpoint_kind::network_switch:
      return end.index < described.switches.size();
    case endpoint_kind::host:
      return end.index == 0;
  }
  return false;
}

void check_protocol(protocol& rules, const std::string& where, problems& found) {
  for (const key& one : machine_keys()) {
    const std::optional<field> at = field_in(one, rules);
    if (at && applies(one, rules))
      check_range(one, *at, where + "protocol." + std::string(one.name), found);
  }
  const std::uint32_t payload = rules.max_payload_bytes;
  if (is_pcie(rules.kind))
    found.require(std::has_single_bit(payload), where + "PCIe payload sizes are powers of two");
  else
    found.require(payload <= 256 && payload % 16 == 0,
                  where + "NVLink packets carry 16 to 256 B in steps of 16");
}

void check_links(machine& described, problems& found) {
  using end_key = std::pair<endpoint_kind, std::uint32_t>;
  std::set<std::pair<std::pair<end_key, end_key>, std::string>> seen;
  for (std::size_t index = 0; index < described.links.size(); ++index) {
    link& edge = described.links[index];
    const std::string where = "link " + std::to_string(index) + ": ";
    const bool ends = exists(described, edge.a) && exists(described, edge.b);
    found.require(ends, where + "an end does not exist");
    found.require(!(edge.a == edge.b), where + "the same device is at both ends");
    check_ranges(edge, where, false, described, found);
    check_rules(edge, where, described, found);
    check_protocol(edge.protocol, where, found);
    end_key low{edge.a.kind, edge.a.index};
    end_key high{edge.b.kind, edge.b.index};
    if (high < low) std::swap(low, high);
    found.require(seen.insert({{low, high}, edge.protocol_name}).second,
                  where + "a second " + edge.protocol_name + " link between the same devices");
  }
}

}  // namespace

std::vector<std::string> validate(const machine& described) {
  problems found;
  machine checked = described;  // a copy, because fields are found through mutable references
  check_ranges(checked, "", true, checked, found);
  if (found.none()) check_rules(checked, "", checked, found);
  for (std::size_t index = 0; index < checked.switches.size(); ++index)
    check_ranges(checked.switches[index], "switch " + std::to_string(index) + ": ", false, checked,
                 found);
  check_links(checked, found);
  if (found.none()) {
    // Every pair is checked, because GPUs do not forward messages. If one GPU reaches two other
    // GPUs, these two may still not reach each other.
    for (std::uint32_t one = 0; one < described.gpu_count; ++one)
      for (std::uint32_t other = one + 1; other < described.gpu_count; ++other) {
        const bool reached =
            route(described, {endpoint_kind::gpu, one}, {endpoint_kind::gpu, other}).has_value();
        found.require(reached,
                      "no path from gpu" + std::to_string(one) + " to gpu" + std::to_string(other));
      }
  }
  return found.take();
}

}  // namespace interlace::machine
