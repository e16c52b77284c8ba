#include "cuda/transfer/block_image.hpp"

#include "cuda/transfer/embedded_file.hpp"

INTERLACE_EMBED("interlace_block_kernels", INTERLACE_BLOCK_KERNELS);

extern "C" {
extern const char interlace_block_kernels[];
}

namespace interlace::cuda {

const char* block_kernels_text() { return interlace_block_kernels; }

}  // namespace interlace::cuda
