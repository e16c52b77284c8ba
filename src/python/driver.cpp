// interlace._driver: checkpoints on GPUs. Its functions need an NVIDIA driver, but no CUDA runtime.
#include <nanobind/nanobind.h>

#include "python/driver_checkpoint.hpp"

NB_MODULE(_driver, module) {
  module.doc() = "Checkpoints on GPUs, by the NVIDIA driver alone.";
  (void)nanobind::module_::import_("interlace._core");  // _core translates errors for both modules
  interlace::python::bind_checkpoints(module);
}
