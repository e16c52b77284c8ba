// The module interlace._driver: checkpoints on GPUs. Its functions need an NVIDIA driver, but no
// CUDA runtime.
#include <nanobind/nanobind.h>

#include "python/driver_checkpoint.hpp"

NB_MODULE(_driver, module) {
  module.doc() = "Checkpoints on GPUs, with the NVIDIA driver alone.";
  // The import of _core registers the translation of C++ exceptions into Python exceptions.
  (void)nanobind::module_::import_("interlace._core");
  interlace::python::bind_checkpoints(module);
}
