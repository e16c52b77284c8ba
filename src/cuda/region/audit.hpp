// The debug mode of a region: what its kernels noted, element by element, against what they ought
// to have done.
#pragma once

#include <cuda_runtime.h>

#include "interlace/cuda/region/exchange.hpp"
#include "interlace/region.hpp"

namespace interlace::cuda {

// Behind the kernels of an epoch and before launch_check, which says less: reports what they noted
// wrongly, and, where chunks are tracked, an element of a chunk that is stored but not published or
// published but not stored. Then forgets the epoch.
void launch_audit(const barrier_arguments& b, const region_audit& audit,
                  const kernel::chunk_table& table, cudaStream_t stream);

// Loads it on the current device.
void load_audit_kernels();

}  // namespace interlace::cuda
