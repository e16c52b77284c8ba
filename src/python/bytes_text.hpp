// Converts Python's bytes to a C++ string.
#pragma once

#include <nanobind/nanobind.h>

#include <string_view>

namespace interlace::python {

inline std::string_view text_of(const nanobind::bytes& bytes) {
  return {bytes.c_str(), bytes.size()};
}

}  // namespace interlace::python
