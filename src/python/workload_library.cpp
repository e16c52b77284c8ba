#include "python/workload_library.hpp"

#include <dlfcn.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <stdexcept>
#include <string_view>
#include <vector>

#include "interlace/base/errors.hpp"

namespace nb = nanobind;

namespace interlace::python {

namespace {

constexpr const char* build_again =
    "; build it again with `interlace build-workload`, or with cmake";

using anything = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;

std::string type_of(const run::parameter& p) {
  using kind = run::argument_kind;
  switch (p.kind) {
    case kind::number:
      return "a number";
    case kind::whole:
      return "a whole number";
    case kind::truth:
      return "True or False";
    case kind::text:
      return "a string";
    case kind::array:
      break;
  }
  const char* element = p.element == run::element_kind::floating       ? "float"
                        : p.element == run::element_kind::signed_whole ? "int"
                                                                       : "uint";
  return "a contiguous array of " + std::string(element) + std::to_string(8 * p.element_bytes) +
         " with " + std::to_string(p.rank) + " dimensions";
}

bool is_of(nb::dlpack::dtype type, const run::parameter& p) {
  using code = nb::dlpack::dtype_code;
  const code wanted = p.element == run::element_kind::floating       ? code::Float
                      : p.element == run::element_kind::signed_whole ? code::Int
                                                                     : code::UInt;
  return type.code == static_cast<std::uint8_t>(wanted) && type.lanes == 1 &&
         type.bits == 8 * p.element_bytes;
}

// Converts a Python value for a parameter. Returns false if the parameter does not take the value.
bool take(nb::handle value, const run::parameter& p, run::argument& to) {
  using kind = run::argument_kind;
  switch (p.kind) {
    case kind::number:
      return nb::try_cast(value, to.number);
    case kind::whole:
      return nb::try_cast(value, to.whole);
    case kind::truth:
      return nb::try_cast(value, to.truth, false);
    case kind::text:
      return nb::try_cast(value, to.text);
    case kind::array:
      break;
  }
  anything array;
  // The array must not be converted, because a converted copy would be freed while the problem
  // still uses it.
  if (!nb::try_cast(value, array, false) || array.ndim() != p.rank || !is_of(array.dtype(), p)) {
    return false;
  }
  for (std::size_t k = 0; k < p.rank; ++k) to.extents[k] = array.shape(k);
  to.data = array.data();
  return true;
}

}  // namespace

workload_library::workload_library(const std::string& path) : path_(path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    throw usage_error("a workload cannot be loaded: " +
                      std::string(dlerror()));  // NOLINT(concurrency-mt-unsafe): of this thread
  void* function = dlsym(library, run::module_function_name);
  if (function == nullptr) {
    throw usage_error(path + " is not the library of a workload" + build_again);
  }
  of_ = reinterpret_cast<run::module_function>(function)();
  const run::module_description own;
  if (std::string_view(of_->version) != own.version) {
    throw usage_error(path + " was built for Interlace " + of_->version + ", and this is " +
                      own.version + build_again);
  }
  if (of_->layout != own.layout) {
    throw usage_error(path +
                      " was built with a C++ standard library that differs from Interlace's" +
                      build_again);
  }
}

std::unique_ptr<run::module_problem> workload_library::problem(const nb::args& data) const {
  if (data.size() != of_->parameter_count) {
    const std::string message = path_ + " takes " + std::to_string(of_->parameter_count) +
                                " arguments, not " + std::to_string(data.size());
    throw nb::type_error(message.c_str());
  }
  std::vector<run::argument> arguments(data.size());
  for (std::size_t k = 0; k < arguments.size(); ++k) {
    const run::parameter& p = of_->parameters[k];
    if (take(data[k], p, arguments[k])) continue;
    const std::string message =
        path_ + ": argument '" + std::string(p.name) + "' must be " + type_of(p);
    throw nb::type_error(message.c_str());
  }
  std::unique_ptr<run::module_problem> made;
  check(of_->make(arguments.data(), made));
  return made;
}

bool interrupted() noexcept {
  const nb::gil_scoped_acquire gil;
  return PyErr_CheckSignals() != 0;
}

void check(const run::outcome& ended) {
  using kind = run::outcome::kind;
  switch (ended.what) {
    case kind::good:
      return;
    case kind::usage:
      throw usage_error(ended.message);
    case kind::model:
      throw model_error(ended.message);
    case kind::device:
      throw device_error(ended.message);
    case kind::interrupted: {
      const nb::gil_scoped_acquire gil;
      throw nb::python_error();
    }
    case kind::other:
      break;
  }
  throw std::runtime_error("a workload failed: " + ended.message);
}

}  // namespace interlace::python
