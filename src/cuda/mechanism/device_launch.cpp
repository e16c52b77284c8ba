#include "cuda/mechanism/table.hpp"
#include "cuda/mechanism/tracked.hpp"
#include "interlace/base/errors.hpp"
#include "interlace/cuda/launching.hpp"
#include "interlace/kernel/type_name.hpp"

namespace interlace::cuda {

namespace {

// The block that completes a chunk launches a kernel. That kernel stores the chunk to the devices
// that receive it.
class device_launch final : public tracked_mechanism {
 public:
  using tracked_mechanism::tracked_mechanism;

 protected:
  void choose_entry(kernel_operation& k, const kernel_entries& entries,
                    const kernel::region_options& how) const override {
    const launching_kernel found = find_launching_kernel(*entries.type);
    k.entry = how.transfers ? found.entry : entries.announces;
    k.launches = found.copies;
  }
  void check(const kernel_operation& k, const kernel::region_options& how,
             int /*ordinal*/) const override {
    if (k.entry != nullptr) return;
    throw usage_error("kernel " + kernel::readable_type_name(k.type_name) +
                      " is not compiled for " + kernel::mechanism_name(how.mechanism) +
                      ": name it in add_launching_kernels, in a file that nvcc compiles with "
                      "-rdc=true");
  }
};

}  // namespace

std::unique_ptr<node_mechanism> make_device_launch(const node_parts& of) {
  return std::make_unique<device_launch>(of);
}

}  // namespace interlace::cuda
