#include "interlace/cuda/check.hpp"

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "interlace/base/errors.hpp"

namespace interlace::cuda {

namespace {

// Describes a failed call. The text of the call has no line breaks, and the path of the file is
// relative to the source folder.
std::string describe(cudaError_t error, const char* call, const char* file, int line) {
  std::string_view name = file;
  if (const auto at = name.rfind("/src/"); at != std::string_view::npos) name.remove_prefix(at + 1);
  return std::string(call) + " failed: " + cudaGetErrorString(error) + " (" +
         cudaGetErrorName(error) + ") at " + std::string(name) + ":" + std::to_string(line);
}

}  // namespace

void throw_failure(cudaError_t error, const char* call, const char* file, int line) {
  (void)cudaGetLastError();
  throw device_error(describe(error, call, file, line));
}

void abort_failure(cudaError_t error, const char* call, const char* file, int line) {
  std::fprintf(stderr, "interlace: %s\n", describe(error, call, file, line).c_str());
  std::abort();
}

void log_failure(cudaError_t error, const char* call, const char* file, int line) noexcept {
  (void)cudaGetLastError();
  if (error == cudaErrorCudartUnloading) return;
  try {
    std::fprintf(stderr, "interlace: %s\n", describe(error, call, file, line).c_str());
  } catch (...) {
    std::fprintf(stderr, "interlace: %s failed\n", call);
  }
}

}  // namespace interlace::cuda
