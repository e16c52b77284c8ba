// The debug mode of a region: compares what its kernels noted for each element with what they
// should have done.
#pragma once

#include <cuda_runtime.h>

#include "interlace/cuda/region/exchange.hpp"
#include "interlace/region.hpp"

namespace interlace::cuda {

// Enqueued after the kernels of an epoch and before launch_check, whose report has less detail.
// Reports what the kernels noted as wrong. Where chunks are tracked, it also reports an element of
// a chunk that is stored but not published, or published but not stored. Then it forgets the epoch.
void launch_audit(const barrier_arguments& b, const region_audit& audit,
                  const kernel::chunk_table& table, cudaStream_t stream);

// Loads the kernel on the current device.
void load_audit_kernels();

}  // namespace interlace::cuda
