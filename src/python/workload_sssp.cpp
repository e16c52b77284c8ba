#include <nanobind/stl/string.h>

#include <string>

#include "base/errors.hpp"
#include "python/workloads.hpp"

namespace interlace::python {

run::sssp_problem sssp_problem(const array_in<std::uint64_t>& offsets,
                               const array_in<std::uint32_t>& columns,
                               const array_in<float>& weights, std::uint64_t source,
                               const std::string& kernel, const std::string& subscribe) {
  check_rows(offsets, columns, offsets.shape(0) - 1, "vertices");
  if (weights.shape(0) != columns.shape(0)) {
    throw usage_error("there must be a weight for each edge");
  }
  return {{offsets.shape(0) - 1, offsets.data(), columns.data(), weights.data()},
          source,
          run::parse_row_kernel(kernel),
          to_readers(subscribe)};
}

}  // namespace interlace::python
