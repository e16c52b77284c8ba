#include "interlace/kernel/remote_loads.hpp"

#include "interlace/base/errors.hpp"
#include "kernel/remote_load_table.hpp"

namespace interlace::kernel {

remote_load_options parse_remote_loads(const std::string& name) {
  std::string known;
  for (const remote_load_row& row : remote_load_rows) {
    if (name == row.name) return row.options;
    const bool last = &row == &remote_load_rows.back();
    known += known.empty() ? row.name : (last ? " and " : ", ") + std::string(row.name);
  }
  throw usage_error("unknown mechanism '" + name + "' for remote loads; give one of " + known);
}

}  // namespace interlace::kernel
