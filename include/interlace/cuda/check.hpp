// Reactions to a failed CUDA call: an exception, the end of the program, or a line in the log. Each
// reaction names the call, the error and the place in the source. Each reaction also clears the
// error that the runtime keeps, so that the next check does not report the same error again.
#pragma once

#include <cuda_runtime.h>

namespace interlace::cuda {

// Throws device_error.
[[noreturn]] void throw_failure(cudaError_t error, const char* call, const char* file, int line);
// Ends the program. This reaction is for calls that fail only because of an error in this library.
[[noreturn]] void abort_failure(cudaError_t error, const char* call, const char* file, int line);
// Logs the failure. This reaction is for destructors, which must not throw. Logs nothing if the
// driver is already shutting down.
void log_failure(cudaError_t error, const char* call, const char* file, int line) noexcept;

}  // namespace interlace::cuda

#define INTERLACE_CUDA_OR(action, call)                                               \
  do {                                                                                \
    if (const cudaError_t interlace_error = (call); interlace_error != cudaSuccess) { \
      ::interlace::cuda::action(interlace_error, #call, __FILE__, __LINE__);          \
    }                                                                                 \
  } while (false)

#define INTERLACE_CUDA_CHECK(call) INTERLACE_CUDA_OR(throw_failure, call)
#define INTERLACE_CUDA_ASSERT(call) INTERLACE_CUDA_OR(abort_failure, call)
#define INTERLACE_CUDA_LOG(call) INTERLACE_CUDA_OR(log_failure, call)
