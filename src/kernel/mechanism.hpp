// Mechanisms by value and by name. What a mechanism is, its parameters and its traits, are a row of
// src/kernel/mechanisms.toml, of which the table is made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "mechanism_table.hpp"  // beside it also where it is installed

namespace interlace::kernel {

constexpr const mechanism_row& row_of(mechanism m) {
  return mechanism_rows[static_cast<std::size_t>(m)];
}
constexpr const mechanism_parameter_row& row_of(mechanism_parameter p) {
  return mechanism_parameters[static_cast<std::size_t>(p)];
}

// The name that users type.
constexpr const char* mechanism_name(mechanism m) { return row_of(m).name; }
// Throws usage_error, which lists the names that there are.
mechanism parse_mechanism(const std::string& name);

// Whether blocks announce what they write of a region's chunks.
constexpr bool tracks_chunks(mechanism m) { return row_of(m).tracks_chunks; }
// Whether an exchange only begins when the kernels before it are done, and copies what they wrote:
// then its time is that of the kernels and that of the copies.
constexpr bool copies_behind_kernels(mechanism m) { return row_of(m).copies_after_kernels; }
// Whether remote stores wait in a queue of the GPU, which no GPU that exists has.
constexpr bool queues_stores(mechanism m) { return row_of(m).queues_stores; }

enum class node_kind : std::uint8_t { host, sim, cuda };

// Throws usage_error with the reason unless such a node has the mechanism.
void check_has(node_kind node, mechanism m);

// The mechanisms with a trait, as "a, b or c".
std::string mechanisms_with(bool mechanism_row::*trait);

}  // namespace interlace::kernel
