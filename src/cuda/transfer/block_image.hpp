// The kernels of block_kernels.ptx, in the form that the driver loads.
#pragma once

namespace interlace::cuda {

// The text of the kernels, followed by a byte of 0.
const char* block_kernels_text();

}  // namespace interlace::cuda
