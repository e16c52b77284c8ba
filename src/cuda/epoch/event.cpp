#include "cuda/epoch/event.hpp"

#include "interlace/cuda/check.hpp"

namespace interlace::cuda {

cudaEvent_t make_event(bool timed) {
  cudaEvent_t event = nullptr;
  INTERLACE_CUDA_CHECK(
      cudaEventCreateWithFlags(&event, timed ? cudaEventDefault : cudaEventDisableTiming));
  return event;
}

double elapsed_s(cudaEvent_t begin, cudaEvent_t end) {
  float ms = 0;
  INTERLACE_CUDA_CHECK(cudaEventElapsedTime(&ms, begin, end));
  return static_cast<double>(ms) * 1e-3;
}

}  // namespace interlace::cuda
