// CUDA events.
#pragma once

#include <cuda_runtime.h>

namespace interlace::cuda {

// Makes an event of the current device.
cudaEvent_t make_event(bool timed);

double elapsed_s(cudaEvent_t begin, cudaEvent_t end);

}  // namespace interlace::cuda
