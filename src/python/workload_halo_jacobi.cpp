#include "base/errors.hpp"
#include "python/workloads.hpp"

namespace interlace::python {

run::halo_jacobi_problem halo_jacobi_problem(std::uint64_t rows, std::uint64_t columns) {
  constexpr std::uint64_t most = std::uint64_t{1} << 31U;
  if (rows == 0 || columns < 3 || rows >= most || columns >= most) {
    throw usage_error("a grid of " + std::to_string(rows) + " x " + std::to_string(columns) +
                      " points cannot be used; give at least a row of 3, and fewer than " +
                      std::to_string(most) + " of either");
  }
  return {{static_cast<std::uint32_t>(rows), static_cast<std::uint32_t>(columns)}};
}

}  // namespace interlace::python
