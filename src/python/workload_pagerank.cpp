#include <algorithm>

#include "base/errors.hpp"
#include "python/workloads.hpp"

namespace interlace::python {

run::pagerank_problem pagerank_problem(const array_in<std::uint64_t>& offsets,
                                       const array_in<std::uint32_t>& columns,
                                       const array_in<std::uint32_t>& out_degree, double damping) {
  const std::size_t vertices = out_degree.shape(0);
  if (offsets.shape(0) != vertices + 1 || offsets.data()[0] != 0 ||
      offsets.data()[vertices] != columns.shape(0) ||
      !std::is_sorted(offsets.data(), offsets.data() + vertices + 1)) {
    throw usage_error("the offsets do not describe rows of the given columns");
  }
  const std::uint32_t* last = columns.data() + columns.shape(0);
  if (std::any_of(columns.data(), last, [&](std::uint32_t c) { return c >= vertices; })) {
    throw usage_error("a column is not one of the graph's " + std::to_string(vertices) +
                      " vertices");
  }
  return {{vertices, offsets.data(), columns.data(), out_degree.data()},
          static_cast<float>(damping)};
}

}  // namespace interlace::python
