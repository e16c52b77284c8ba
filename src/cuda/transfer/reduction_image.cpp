#include "cuda/transfer/reduction_image.hpp"

#ifdef INTERLACE_REDUCTION_IMAGE  // the name of the file that nvcc made

// NOLINTNEXTLINE(hicpp-no-assembler): the compiler has no other way to embed a file
asm(".pushsection .rodata\n"
    ".balign 16\n"
    ".hidden interlace_reduction_image\n"
    ".globl interlace_reduction_image\n"
    "interlace_reduction_image:\n"
    ".incbin \"" INTERLACE_REDUCTION_IMAGE
    "\"\n"
    ".hidden interlace_reduction_image_end\n"
    ".globl interlace_reduction_image_end\n"
    "interlace_reduction_image_end:\n"
    ".popsection\n");

extern "C" {
extern const std::byte interlace_reduction_image[];
extern const std::byte interlace_reduction_image_end[];
}

namespace interlace::cuda {

kernel_image reduction_image() {
  return {{interlace_reduction_image, interlace_reduction_image_end}, INTERLACE_REDUCTION_CUDA};
}

}  // namespace interlace::cuda

#else

namespace interlace::cuda {

kernel_image reduction_image() { return {}; }

}  // namespace interlace::cuda

#endif
