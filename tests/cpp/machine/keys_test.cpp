#include "machine/keys.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "interlace/base/errors.hpp"
#include "machine/sample.hpp"

namespace interlace::machine::keys_tests {
namespace {

// A value that converts to any type except the struct itself.
template <class Struct>
struct any_value {
  template <class Type>
  requires(!std::is_same_v<std::remove_cvref_t<Type>, Struct>) operator Type()
      const;  // NOLINT(google-explicit-constructor)
};

template <class Struct, std::size_t... Index>
constexpr bool takes(std::index_sequence<Index...> /*of values*/) {
  return requires { Struct{((void)Index, any_value<Struct>{})...}; };
}

// Returns the number of members of an aggregate.
template <class Struct, std::size_t Count = 0>
constexpr std::size_t members() {
  if constexpr (takes<Struct>(std::make_index_sequence<Count + 1>{}))
    return members<Struct, Count + 1>();
  else
    return Count;
}

std::size_t keys_in(const std::vector<std::string>& tables) {
  return static_cast<std::size_t>(
      std::count_if(machine_keys().begin(), machine_keys().end(), [&](const key& one) {
        return std::find(tables.begin(), tables.end(), one.table) != tables.end();
      }));
}

TEST(keys, every_member_of_a_struct_has_a_key) {
  EXPECT_EQ(keys_in({"gpu.issue"}), members<issue_rates>());
  // The following members have no key in [gpu.l1]: banks, requests, stores, between_kernels, and
  // three members for an L2 of several parts.
  EXPECT_EQ(keys_in({"gpu.l1"}), members<cache>() - 7);
  EXPECT_EQ(keys_in({"gpu.scalar_l1"}), members<scalar_cache>());
  // Three members of `cache` apply only to an L1. Two keys of [gpu.l2] fill members of `gpu`.
  EXPECT_EQ(keys_in({"gpu.l2"}) - 2, members<cache>() - 3);
  EXPECT_EQ(keys_in({"gpu.tlb"}), members<tlb>());
  EXPECT_EQ(keys_in({"gpu.dram"}), members<dram>());
  EXPECT_EQ(keys_in({"gpu.graph"}), members<graph_costs>());
  EXPECT_EQ(keys_in({"gpu.remote_write_queue"}), members<remote_write_queue>());
  EXPECT_EQ(keys_in({"gpu.gps"}), members<subscriptions>());
  EXPECT_EQ(keys_in({"gpu.dualopt"}), members<dualopt>());
  EXPECT_EQ(keys_in({"gpu.griffin"}), members<griffin>());
  // The 11 structs above are members of `gpu` without a key. Two keys of these tables fill no
  // member of `gpu`, so they are subtracted: the number of GPUs, and the error of the workloads.
  // Two keys of [gpu.l2] fill members of `gpu`, so they are added.
  EXPECT_EQ(keys_in({"gpu", "gpu.copy", "gpu.launch"}) - 2 + 2, members<gpu>() - 11);
  EXPECT_EQ(keys_in({"host"}), members<host>());
  EXPECT_EQ(keys_in({"protocol"}), members<protocol>());
  EXPECT_EQ(keys_in({"switch"}), members<network_switch>());
  // These members have no key in [link]: the two ends of the link, and the packets, which follow
  // from the protocol.
  EXPECT_EQ(keys_in({"link"}), members<link>() - 2);
}

// Returns all fields of a struct that have a key, together with their keys.
template <class Owner>
std::vector<std::pair<const key*, field>> fields_of(Owner& owner) {
  std::vector<std::pair<const key*, field>> found;
  for (const key& one : machine_keys())
    if (const auto at = field_in(one, owner)) found.emplace_back(&one, *at);
  return found;
}

template <class Owner>
void expect_fields_of_their_own() {
  Owner owner;
  std::set<const void*> seen;
  for (const auto& [one, at] : fields_of(owner))
    EXPECT_TRUE(std::visit([&](auto* it) { return seen.insert(it).second; }, at))
        << full_name(*one);
  EXPECT_FALSE(seen.empty());
}

TEST(keys, no_two_keys_fill_one_field) {
  expect_fields_of_their_own<machine>();
  expect_fields_of_their_own<protocol>();
  expect_fields_of_their_own<network_switch>();
  expect_fields_of_their_own<link>();
}

TEST(keys, names_are_found_once) {
  std::set<std::string> seen;
  for (const key& one : machine_keys()) {
    EXPECT_TRUE(seen.insert(full_name(one)).second) << full_name(one);
    EXPECT_EQ(find_key(full_name(one)), &one);
    const bool known =
        one.table.empty() || std::any_of(machine_tables().begin(), machine_tables().end(),
                                         [&](const table& it) { return it.name == one.table; });
    EXPECT_TRUE(known) << full_name(one);
  }
  EXPECT_EQ(find_key("gpu.l3.ways"), nullptr);
  EXPECT_EQ(find_key(""), nullptr);
}

TEST(keys, rules_name_keys_that_exist) {
  const auto has_table_named = [](std::string_view name) {
    return std::any_of(machine_tables().begin(), machine_tables().end(),
                       [&](const table& it) { return it.name == name; });
  };
  for (const rule& one : machine_rules()) {
    std::string_view left = one.others;
    if (one.kind == rule_kind::needs) {
      EXPECT_TRUE(has_table_named(one.key) && has_table_named(left));
      continue;
    }
    EXPECT_NE(find_key(one.key), nullptr) << one.key;
    while (!left.empty()) {
      const std::size_t end = left.find(' ');
      EXPECT_NE(find_key(left.substr(0, end)), nullptr) << left;
      left = end == std::string_view::npos ? std::string_view{} : left.substr(end + 1);
    }
    EXPECT_EQ(one.others.empty(), one.kind == rule_kind::power_of_two) << one.key;
  }
}

TEST(keys, values_have_the_unit_of_the_file) {
  machine made;
  const auto set = [&](const char* name, const key_value& value) {
    const key& one = *find_key(name);
    set_value(one, *field_in(one, made), value);
    return value_of(one, *field_in(one, made));
  };
  EXPECT_EQ(set("gpu.clock_MHz", 1530.5), key_value(1530.5));
  EXPECT_EQ(made.gpu.clock_hz, 1530.5e6);
  EXPECT_EQ(set("gpu.l1.hit_latency_ns", 55.4), key_value(55.4));
  EXPECT_EQ(made.gpu.l1.hit_latency_ps, 55'400U);
  EXPECT_EQ(set("gpu.dram.capacity_GiB", std::int64_t{16}), key_value(std::int64_t{16}));
  EXPECT_EQ(made.gpu.dram.bytes, std::uint64_t{16} << 30U);
  EXPECT_EQ(set("gpu.launch.dispatch", std::string("greedy")), key_value(std::string("greedy")));
  EXPECT_EQ(made.gpu.dispatch, block_dispatch::greedy);
  EXPECT_EQ(set("gpu.remote_store_bytes", std::int64_t{0}), key_value(std::monostate{}));
  EXPECT_THROW(set("gpu.l1.ways", std::int64_t{-1}), usage_error);
  EXPECT_THROW(set("gpu.l1.ways", std::int64_t{1} << 32U), usage_error);
  EXPECT_THROW(set("gpu.l1.ways", std::string("four")), usage_error);
  EXPECT_THROW(set("gpu.l1.write_policy", std::string("around")), usage_error);
  EXPECT_THROW(set("gpu.model", std::int64_t{4}), usage_error);
}

TEST(keys, units_are_read_from_names) {
  EXPECT_EQ(unit_of("clock_MHz").in_struct, 1e6);
  EXPECT_EQ(unit_of("memory_lines_per_clock").in_struct, 1);
  EXPECT_EQ(unit_of("store_GB_per_s_per_compute_unit").text, "GB/s");
  EXPECT_EQ(unit_of("shared_KiB_per_compute_unit").in_struct, 1024);
  EXPECT_EQ(unit_of("ways").text, "");
}

TEST(keys, optional_tables_are_there_by_a_field) {
  machine made = make_mesh(2);
  EXPECT_TRUE(has_table("gpu.l1", made));
  EXPECT_FALSE(has_table("gpu.tlb", made));
  made.gpu.tlb.page_bytes = 4096;
  EXPECT_TRUE(has_table("gpu.tlb", made));
}

}  // namespace
}  // namespace interlace::machine::keys_tests
