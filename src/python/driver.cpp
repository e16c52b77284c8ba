// interlace._driver: checkpoints on GPUs. It needs an NVIDIA driver when it is used, and no CUDA
// runtime.
#include <nanobind/nanobind.h>

#include "python/driver_checkpoint.hpp"

NB_MODULE(_driver, module) {
  module.doc() = "Checkpoints on GPUs, by the NVIDIA driver alone.";
  (void)nanobind::module_::import_("interlace._core");  // translates errors for both
  interlace::python::bind_checkpoints(module);
}
