// A sparse matrix in compressed rows: the form that kernels use, and the functions that copy it to
// a device.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "interlace/base/array_view.hpp"
#include "interlace/base/errors.hpp"
#include "interlace/kernel.hpp"
#include "interlace/kernel/mapping.hpp"

namespace interlace::workload {

// Rows [first_row, first_row + rows) of a matrix. `offsets` has rows + 1 elements, and counts
// entries from the first entry of these rows. `columns` has the column numbers of the whole matrix.
struct csr_view {
  local<const std::uint32_t> offsets;
  local<const std::uint32_t> columns;
  std::uint64_t first_row = 0;
  std::uint64_t rows = 0;
};

// Entries [first, first + count) of a matrix.
struct entry_span {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
};

// A device's part of a graph, that is, the rows [first_row, last_row) that the device owns. `Rows`
// determines how a kernel goes over the rows (edge_units.hpp, row_warps.hpp).
template <class Rows>
struct placed_rows {
  Rows rows;
  entry_span edges;
  kernel::block_mapping mapping;
  std::uint64_t blocks = 0;
};

// The entries of rows [first_row, last_row), which GPU `device` will own. Throws usage_error if the
// rows have too many entries for 32-bit indices that advance by `stride`. `what` is the user's word
// for an entry.
inline entry_span owned_entries(const std::uint64_t* offsets, std::uint64_t first_row,
                                std::uint64_t last_row, std::uint32_t device, const char* what,
                                std::uint32_t stride) {
  const entry_span span{offsets[first_row], offsets[last_row] - offsets[first_row]};
  const std::uint64_t most = 0xffffffffU - stride;
  if (span.count > most) {
    throw usage_error("GPU " + std::to_string(device) + " would own " + std::to_string(span.count) +
                      " " + what + "; at most " + std::to_string(most) +
                      " are possible: use more GPUs");
  }
  return span;
}

// The offsets of the rows [first_row, last_row], relative to the first row's offset.
inline std::vector<std::uint32_t> relative_offsets(const std::uint64_t* offsets,
                                                   std::uint64_t first_row,
                                                   std::uint64_t last_row) {
  std::vector<std::uint32_t> relative(last_row - first_row + 1);
  for (std::uint64_t r = first_row; r <= last_row; ++r) {
    relative[r - first_row] = static_cast<std::uint32_t>(offsets[r] - offsets[first_row]);
  }
  return relative;
}

// Throws usage_error unless `offsets` are valid offsets of rows into `columns` and each column is
// below `limit`. `what` is the user's word for what a column number counts.
inline void check_rows(const array_view<std::uint64_t>& offsets,
                       const array_view<std::uint32_t>& columns, std::size_t limit,
                       const char* what) {
  if (offsets.size() == 0 || *offsets.begin() != 0 || *(offsets.end() - 1) != columns.size() ||
      !std::is_sorted(offsets.begin(), offsets.end())) {
    throw usage_error("the offsets do not divide the given columns into rows");
  }
  if (std::any_of(columns.begin(), columns.end(), [&](std::uint32_t c) { return c >= limit; })) {
    throw usage_error("a column is not one of the " + std::to_string(limit) + " " + what);
  }
}

}  // namespace interlace::workload
