#include "cuda/memory/driver_calls.hpp"

#include <cstdio>

#include "interlace/base/errors.hpp"

namespace interlace::cuda {

std::string driver_calls::name_of(CUresult error) const {
  const char* name = nullptr;
  if (error_name(error, &name) != CUDA_SUCCESS || name == nullptr) {
    return "error " + std::to_string(static_cast<int>(error));
  }
  return name;
}

void driver_calls::check(CUresult error, const char* what) const {
  if (error == CUDA_SUCCESS) return;
  throw device_error(std::string(what) + " failed: " + name_of(error));
}

void driver_calls::log(CUresult error, const char* what) const {
  if (error == CUDA_SUCCESS || error == CUDA_ERROR_DEINITIALIZED) return;
  std::fprintf(stderr, "interlace: %s failed: %s\n", what, name_of(error).c_str());
}

const driver_calls& driver() {
  static const driver_calls found;
  return found;
}

}  // namespace interlace::cuda
