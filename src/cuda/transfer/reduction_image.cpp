#include "cuda/transfer/reduction_image.hpp"

#ifdef INTERLACE_REDUCTION_IMAGE  // name of the file that nvcc made

#include "cuda/transfer/embedded_file.hpp"

INTERLACE_EMBED("interlace_reduction_image", INTERLACE_REDUCTION_IMAGE);

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
