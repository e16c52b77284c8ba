// Runs kernels at once to count or record the accesses of their warps.
#pragma once

#include <cstdint>

#include "cuda/epoch/gpus.hpp"
#include "cuda/epoch/kernels.hpp"
#include "interlace/cuda/epoch/arrays.hpp"
#include "interlace/kernel/trace.hpp"

namespace interlace::cuda {

// Both functions block until the node is idle, run the kernel, and block until the kernel has
// ended. They throw model_error during a recording.
kernel::trace_totals count_accesses(const node_gpus& gpus, node_arrays& arrays,
                                    loaded_kernels& kernels, std::uint32_t device,
                                    const kernel_operation& k);
void record_accesses(const node_gpus& gpus, node_arrays& arrays, loaded_kernels& kernels,
                     std::uint32_t device, const kernel_operation& k,
                     const kernel::access_taker& take);

}  // namespace interlace::cuda
