// The kernels of block_kernels.ptx as the driver loads them.
#pragma once

namespace interlace::cuda {

// The text, ended by a byte of 0.
const char* block_kernels_text();

}  // namespace interlace::cuda
