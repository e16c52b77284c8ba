// Mechanisms by value and by name. Each row of src/kernel/mechanisms.toml describes a mechanism and
// lists its parameters and traits. mechanism_table.hpp is generated from mechanisms.toml.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "interlace/kernel/mechanism_table.hpp"

namespace interlace::kernel {

// The row of a mechanism in the table: its name, parameters and traits. The row lives as long as
// the program.
constexpr const mechanism_row& row_of(mechanism m) {
  return mechanism_rows[static_cast<std::size_t>(m)];
}
// The row of a parameter in the table: its name, bounds and default. The row lives as long as the
// program.
constexpr const mechanism_parameter_row& row_of(mechanism_parameter p) {
  return mechanism_parameters[static_cast<std::size_t>(p)];
}

// The name that users type.
constexpr const char* mechanism_name(mechanism m) { return row_of(m).name; }
// Throws usage_error if no mechanism has this name. The error lists the valid names.
mechanism parse_mechanism(const std::string& name);

// Whether blocks announce which elements of a region's chunks they have written.
constexpr bool tracks_chunks(mechanism m) { return row_of(m).tracks_chunks; }
// Whether an exchange begins only after the kernels before it have ended, and then copies the
// output of these kernels. With such a mechanism, the time of an epoch is the time of the kernels
// plus the time of the copies.
constexpr bool copies_behind_kernels(mechanism m) { return row_of(m).copies_after_kernels; }
// Whether remote stores wait in a queue of the GPU. (No existing GPU has such a queue.)
constexpr bool queues_stores(mechanism m) { return row_of(m).queues_stores; }

// The three kinds of node: the reference node, the simulated node and the real node.
enum class node_kind : std::uint8_t { host, sim, cuda };

// Throws usage_error if this kind of node lacks the mechanism. The error says why.
void check_has(node_kind node, mechanism m);

// The mechanisms that have a trait, as a text such as "a, b or c".
std::string mechanisms_with(bool mechanism_row::*trait);

}  // namespace interlace::kernel
