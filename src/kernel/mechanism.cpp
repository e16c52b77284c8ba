#include "interlace/kernel/mechanism.hpp"

#include "interlace/base/errors.hpp"

namespace interlace::kernel {

namespace {

constexpr bool in_order() {
  for (std::size_t i = 0; i < mechanism_rows.size(); ++i) {
    if (static_cast<std::size_t>(mechanism_rows[i].value) != i) return false;
  }
  return true;
}
static_assert(in_order());

}  // namespace

mechanism parse_mechanism(const std::string& name) {
  std::string known;
  for (const mechanism_row& row : mechanism_rows) {
    if (name == row.name) return row.value;
    known += known.empty() ? row.name : std::string(", ") + row.name;
  }
  throw usage_error("unknown mechanism '" + name + "'; give one of " + known);
}

void check_has(node_kind node, mechanism m) {
  const mechanism_row& row = row_of(m);
  const char* reason = nullptr;
  if (row.needs_processes)
    reason = "needs a process for each GPU, but a single process runs this node";
  if (node == node_kind::sim && row.not_on_sim != nullptr) reason = row.not_on_sim;
  if (node == node_kind::cuda && row.not_on_cuda != nullptr) reason = row.not_on_cuda;
  if (reason != nullptr) throw usage_error(std::string(row.name) + " " + reason);
}

std::string mechanisms_with(bool mechanism_row::*trait) {
  std::string found;
  const char* last = nullptr;
  for (const mechanism_row& row : mechanism_rows) {
    if (!(row.*trait)) continue;
    if (last != nullptr) found += (found.empty() ? "" : ", ") + std::string(last);
    last = row.name;
  }
  if (last == nullptr) return found;
  return found.empty() ? last : found + " or " + last;
}

}  // namespace interlace::kernel
