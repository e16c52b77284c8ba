#include <nanobind/stl/string.h>

#include <string>

#include "base/errors.hpp"
#include "python/workloads.hpp"

namespace interlace::python {

run::pagerank_problem pagerank_problem(const array_in<std::uint64_t>& offsets,
                                       const array_in<std::uint32_t>& columns,
                                       const array_in<std::uint32_t>& out_degree, double damping,
                                       const std::string& kernel, const std::string& subscribe) {
  const std::size_t vertices = out_degree.shape(0);
  if (offsets.shape(0) != vertices + 1) throw usage_error("there must be an offset for each row");
  check_rows(offsets, columns, vertices, "vertices");
  return {{vertices, offsets.data(), columns.data(), out_degree.data()},
          static_cast<float>(damping),
          run::parse_row_kernel(kernel),
          to_readers(subscribe)};
}

}  // namespace interlace::python
