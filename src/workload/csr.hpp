// A sparse matrix by rows, as kernels see the part that a device owns.
#pragma once

#include <cstdint>

#include "interlace/kernel.hpp"

namespace interlace::workload {

// Rows [first_row, first_row + rows) of a matrix. `offsets` counts from this part's first entry and
// has rows + 1 elements; `columns` are those of the whole matrix.
struct csr_view {
  local<const std::uint32_t> offsets;
  local<const std::uint32_t> columns;
  std::uint64_t first_row = 0;
  std::uint64_t rows = 0;
};

}  // namespace interlace::workload
