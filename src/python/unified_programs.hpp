// Programs that see several GPUs as one, for Python: their data from arrays, and a function of the
// module for each, whatever runs it.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/errors.hpp"
#include "base/limits.hpp"
#include "python/workloads.hpp"
#include "run/unified.hpp"

namespace interlace::python {

namespace unified {

template <class T>
std::vector<T> values_of(const array_in<T>& array) {
  return {array.data(), array.data() + array.shape(0)};
}
template <class T>
std::vector<T> values_of(const matrix_in<T>& array) {
  return {array.data(), array.data() + array.shape(0) * array.shape(1)};
}
inline std::uint32_t extent(std::size_t n) {
  constexpr std::size_t most = std::size_t{1} << 20U;
  if (n <= most) return static_cast<std::uint32_t>(n);
  throw usage_error("a matrix has " + std::to_string(n) + " rows or columns; at most " +
                    std::to_string(most) + " are possible");
}

inline workload::fir_data fir_data(const array_in<float>& input,
                                   const array_in<float>& coefficients,
                                   const array_in<float>& history) {
  return {values_of(input), values_of(coefficients), values_of(history)};
}
inline workload::transpose_data transpose_data(const matrix_in<float>& input) {
  if (input.shape(0) != input.shape(1)) throw usage_error("the matrix is not square");
  return {extent(input.shape(0)), values_of(input)};
}
inline workload::multiply_data multiply_data(const matrix_in<float>& a, const matrix_in<float>& b) {
  if (a.shape(1) != b.shape(0)) {
    throw usage_error("the first matrix has other columns than the second has rows");
  }
  return {extent(a.shape(0)), extent(a.shape(1)), extent(b.shape(1)), values_of(a), values_of(b)};
}
inline workload::atax_data atax_data(const matrix_in<float>& matrix, const array_in<float>& x) {
  return {extent(matrix.shape(0)), extent(matrix.shape(1)), values_of(matrix), values_of(x)};
}
inline workload::sparse_data sparse_data(const array_in<std::uint32_t>& offsets,
                                         const array_in<std::uint32_t>& columns,
                                         const array_in<float>& elements,
                                         const array_in<float>& vector) {
  return {values_of(offsets), values_of(columns), values_of(elements), values_of(vector)};
}

inline workload::bicg_data bicg_data(const matrix_in<float>& matrix, const array_in<float>& p,
                                     const array_in<float>& r) {
  return {extent(matrix.shape(0)), extent(matrix.shape(1)), values_of(matrix), values_of(p),
          values_of(r)};
}
inline workload::sort_data sort_data(const array_in<std::uint32_t>& keys) {
  return {values_of(keys)};
}
inline workload::aes_data aes_data(const array_in<std::uint8_t>& text,
                                   const array_in<std::uint8_t>& key) {
  return {values_of(text), values_of(key)};
}
inline workload::breadth_first_data breadth_first_data(const array_in<std::uint32_t>& offsets,
                                                       const array_in<std::uint32_t>& targets,
                                                       std::uint32_t source) {
  return {values_of(offsets), values_of(targets), source};
}
inline workload::rank_iteration_data rank_iteration_data(const array_in<std::uint32_t>& offsets,
                                                         const array_in<std::uint32_t>& columns,
                                                         const array_in<float>& elements,
                                                         std::uint32_t iterations) {
  return {values_of(offsets), values_of(columns), values_of(elements), iterations};
}
inline workload::kmeans_data kmeans_data(const matrix_in<float>& features, std::uint32_t clusters,
                                         std::uint32_t iterations) {
  return {extent(features.shape(0)), extent(features.shape(1)), clusters, iterations,
          values_of(features)};
}
inline workload::stencil_2d_data stencil_2d_data(const matrix_in<float>& grid,
                                                 const array_in<float>& weights,
                                                 std::uint32_t iterations) {
  if (grid.shape(0) < 2 || grid.shape(1) < 2 || weights.shape(0) != 3) {
    throw usage_error("a stencil needs a grid with a halo, and three weights");
  }
  return {extent(grid.shape(0) - 2),
          extent(grid.shape(1) - 2),
          iterations,
          {weights(0), weights(1), weights(2)},
          values_of(grid)};
}
inline workload::convolution_data convolution_data(const matrix_in<std::uint32_t>& image,
                                                   const matrix_in<float>& mask) {
  const std::uint32_t side = extent(mask.shape(0));
  if (mask.shape(1) != side || side == 0 || image.shape(0) < side || image.shape(1) < side) {
    throw usage_error("a convolution needs a square mask, and an image that is not smaller");
  }
  return {extent(image.shape(1)) - side + 1, extent(image.shape(0)) - side + 1, side,
          values_of(image), values_of(mask)};
}

}  // namespace unified

// A run's request of what Python says; `pages` is empty for each array's own, where none move, or
// "own" for these in any case.
inline run::unified_request unified_request_of(std::uint32_t gpus, const std::string& pages,
                                               const std::string& blocks) {
  if (gpus == 0 || gpus > max_devices) {
    throw usage_error(std::to_string(gpus) + " GPUs cannot be used; give 1 to " +
                      std::to_string(max_devices));
  }
  run::unified_request asked;
  asked.gpus = gpus;
  asked.own_pages = pages == "own";
  if (!pages.empty() && !asked.own_pages)
    asked.placement.pages = kernel::parse_page_placement(pages, gpus);
  asked.placement.blocks = kernel::parse_block_placement(blocks);
  return asked;
}

// Values as an array that owns them.
inline nanobind::ndarray<nanobind::numpy, float, nanobind::ndim<1>> array_of(
    std::vector<float> values) {
  auto found = std::make_unique<std::vector<float>>(std::move(values));
  float* first = found->data();
  const std::size_t count = found->size();
  nanobind::capsule owner(found.release(),
                          [](void* p) noexcept { delete static_cast<std::vector<float>*>(p); });
  return {first, {count}, owner};
}

// `run(module, name, summary, make, arguments...)` binds one: `make` makes its data of the arrays
// that the arguments name.
template <class Run>
void bind_unified_programs(nanobind::module_& module, const Run& run) {
  using nanobind::arg;
  run(module, "run_fir", "Run a filter on unified GPUs; the result as a dict.", &unified::fir_data,
      arg("input"), arg("coefficients"), arg("history"));
  run(module, "run_transpose", "Transpose a matrix on unified GPUs; the result as a dict.",
      &unified::transpose_data, arg("input"));
  run(module, "run_multiply", "Multiply matrices on unified GPUs; the result as a dict.",
      &unified::multiply_data, arg("a"), arg("b"));
  run(module, "run_atax", "Run A^T (A x) on unified GPUs; the result as a dict.",
      &unified::atax_data, arg("matrix"), arg("x"));
  run(module, "run_sparse_product", "Run a sparse product on unified GPUs; the result as a dict.",
      &unified::sparse_data, arg("offsets"), arg("columns"), arg("values"), arg("vector"));
  run(module, "run_bicg", "Run A p and A^T r on unified GPUs; the result as a dict.",
      &unified::bicg_data, arg("matrix"), arg("p"), arg("r"));
  run(module, "run_sort", "Sort keys below 2^24 on unified GPUs; the result as a dict.",
      &unified::sort_data, arg("keys"));
  run(module, "run_aes", "Encrypt by AES-256 on unified GPUs; the result as a dict.",
      &unified::aes_data, arg("text"), arg("key"));
  run(module, "run_breadth_first", "Levels of a search on unified GPUs; the result as a dict.",
      &unified::breadth_first_data, arg("offsets"), arg("targets"), arg("source"));
  run(module, "run_rank_iteration", "Repeat a product on unified GPUs; the result as a dict.",
      &unified::rank_iteration_data, arg("offsets"), arg("columns"), arg("values"),
      arg("iterations"));
  run(module, "run_kmeans", "Cluster points on unified GPUs; the result as a dict.",
      &unified::kmeans_data, arg("features"), arg("clusters"), arg("iterations"));
  run(module, "run_stencil_2d", "Repeat a stencil on unified GPUs; the result as a dict.",
      &unified::stencil_2d_data, arg("grid"), arg("weights"), arg("iterations"));
  run(module, "run_convolution", "Convolve an image on unified GPUs; the result as a dict.",
      &unified::convolution_data, arg("image"), arg("mask"));
}

}  // namespace interlace::python
