// The parameters of a problem's `make` (interlace/workload/problem.hpp), in the form in which
// Python passes them.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <array>
#include <cstddef>
#include <string>
#include <type_traits>
#include <utility>

#include "interlace/base/array_view.hpp"

namespace interlace::python {

template <class Parameter>
struct argument_of {
  using type = std::conditional_t<std::is_scalar_v<Parameter>, Parameter, const Parameter&>;
  static type made(type value) { return value; }
};

template <class T, std::size_t Rank>
struct argument_of<array_view<T, Rank>> {
  using type = const nanobind::ndarray<const T, nanobind::ndim<Rank>, nanobind::c_contig,
                                       nanobind::device::cpu>&;
  static array_view<T, Rank> made(type array) {
    std::array<std::size_t, Rank> extents{};
    for (std::size_t k = 0; k < Rank; ++k) extents[k] = array.shape(k);
    return {array.data(), extents};
  }
};

// The type that a function of a module takes for a parameter of `make`, and the conversion from
// this type to the type of the parameter.
template <class Parameter>
using argument_type = typename argument_of<std::remove_cvref_t<Parameter>>::type;

template <class Problem, class... Parameter>
Problem problem_of(argument_type<Parameter>... data) {
  return Problem::make(argument_of<std::remove_cvref_t<Parameter>>::made(data)...);
}

// The indices of the names of a problem's arguments.
template <class Problem>
using argument_places = std::make_index_sequence<Problem::arguments.size()>;

// Returns the documentation of a function that runs a problem. `where` says where the problem runs,
// and can be empty.
template <class Problem>
std::string documentation(const char* where = "") {
  return std::string("Run ") + Problem::summary + where + "; the result as a dict.";
}

}  // namespace interlace::python
