#include <algorithm>

#include "base/errors.hpp"
#include "python/workloads.hpp"

namespace interlace::python {

run::jacobi_problem jacobi_problem(const matrix_in<float>& diagonals, const array_in<float>& right,
                                   bool halo) {
  const std::size_t rows = right.shape(0);
  const std::size_t half = diagonals.shape(0) / 2;
  if (diagonals.shape(0) % 2 != 1 || diagonals.shape(1) != rows || half >= rows) {
    throw usage_error("the diagonals are not those of a band around the main one");
  }
  const float* main = diagonals.data() + half * rows;
  if (std::any_of(main, main + rows, [](float a) { return a == 0; })) {
    throw usage_error("the main diagonal has a zero");
  }
  return {{rows, static_cast<std::uint32_t>(half), diagonals.data(), right.data()}, halo};
}

}  // namespace interlace::python
