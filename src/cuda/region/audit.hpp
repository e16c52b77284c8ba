// The debug mode of a region. It compares the notes that kernels made about each element with the
// region's rules.
#pragma once

#include <cuda_runtime.h>

#include "interlace/cuda/region/exchange.hpp"
#include "interlace/region.hpp"

namespace interlace::cuda {

// Enqueues an audit after the kernels of an epoch. The audit comes before launch_check, whose
// report has less detail. It reports errors that kernels noted. If the mechanism tracks chunks, it
// also reports an element of a chunk that is stored but not published, or published but not stored.
// Finally it clears the notes of the epoch.
void launch_audit(const barrier_arguments& b, const region_audit& audit,
                  const kernel::chunk_table& table, cudaStream_t stream);

// Loads the kernel on the current device.
void load_audit_kernels();

}  // namespace interlace::cuda
