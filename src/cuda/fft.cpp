#include "interlace/cuda/fft.hpp"

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "cuda/loaded_library.hpp"
#include "interlace/base/errors.hpp"
#include "interlace/cuda/check.hpp"

namespace interlace::cuda {

namespace {

// The binary interface of cuFFT 12 (CUDA 13), as its documentation describes it. Functions return 0
// for success.
using plan_handle = int;
constexpr int type_real_to_complex = 0x2a;
constexpr int type_complex_to_real = 0x2c;
constexpr int type_complex_to_complex = 0x29;
constexpr int forward = -1;
constexpr int backward = 1;

struct functions {
  int (*plan_many)(plan_handle*, int rank, int* n, int* in_embed, int in_stride, int in_distance,
                   int* out_embed, int out_stride, int out_distance, int type, int batch);
  int (*set_stream)(plan_handle, void* stream);
  int (*complex_to_complex)(plan_handle, void* from, void* to, int direction);
  int (*real_to_complex)(plan_handle, void* from, void* to);
  int (*complex_to_real)(plan_handle, void* from, void* to);
  int (*destroy)(plan_handle);
};

functions load() {
  std::vector<std::string> candidates = {"libcufft.so.12",
                                         INTERLACE_CUDA_LIBRARIES "/libcufft.so.12"};
  // NOLINTNEXTLINE(concurrency-mt-unsafe): no thread sets this variable
  if (const char* named = std::getenv("INTERLACE_CUFFT"); named != nullptr && *named != '\0') {
    candidates = {named};
  }
  loaded_library library("cuFFT", candidates,
                         "install the Python package nvidia-cufft, or set INTERLACE_CUFFT to the "
                         "libcufft.so.12 of CUDA 13");
  functions f{};
  library.need("cufftPlanMany", f.plan_many);
  library.need("cufftSetStream", f.set_stream);
  library.need("cufftExecC2C", f.complex_to_complex);
  library.need("cufftExecR2C", f.real_to_complex);
  library.need("cufftExecC2R", f.complex_to_real);
  library.need("cufftDestroy", f.destroy);
  library.keep();
  return f;
}

const functions& library() {
  static const functions loaded = load();
  return loaded;
}

void check(int result, const char* function) {
  if (result == 0) return;
  throw device_error(std::string("cuFFT's ") + function + " failed with code " +
                     std::to_string(result));
}

class plan {
 public:
  plan(int ordinal, const kernel::fft& f) : ordinal_(ordinal), f_(f) {
    const current_device on(ordinal_);
    int sides[2] = {static_cast<int>(f.length), static_cast<int>(f.length)};
    const auto count = static_cast<int>(f.count);
    if (f.kind == kernel::fft_kind::columns_forward ||
        f.kind == kernel::fft_kind::columns_backward) {
      check(library().plan_many(&handle_, 1, sides, sides, count, 1, sides, count, 1,
                                type_complex_to_complex, count),
            "cufftPlanMany");
    } else {
      const int type =
          f.kind == kernel::fft_kind::planes_forward ? type_real_to_complex : type_complex_to_real;
      // The arrays have no padding: each plane directly follows the previous plane.
      check(library().plan_many(&handle_, 2, sides, nullptr, 1, 0, nullptr, 1, 0, type, count),
            "cufftPlanMany");
    }
  }
  plan(const plan&) = delete;
  plan& operator=(const plan&) = delete;
  ~plan() { (void)library().destroy(handle_); }

  void run(void* stream) const {
    check(library().set_stream(handle_, stream), "cufftSetStream");
    void* spectrum = f_.spectrum.data;
    void* points = f_.points.data;
    switch (f_.kind) {
      case kernel::fft_kind::columns_forward:
        check(library().complex_to_complex(handle_, spectrum, spectrum, forward), "cufftExecC2C");
        break;
      case kernel::fft_kind::columns_backward:
        check(library().complex_to_complex(handle_, spectrum, spectrum, backward), "cufftExecC2C");
        break;
      case kernel::fft_kind::planes_forward:
        check(library().real_to_complex(handle_, points, spectrum), "cufftExecR2C");
        break;
      case kernel::fft_kind::planes_backward:
        check(library().complex_to_real(handle_, spectrum, points), "cufftExecC2R");
        break;
    }
  }

 private:
  int ordinal_;
  kernel::fft f_;
  plan_handle handle_ = 0;
};

}  // namespace

std::function<void(void* stream)> plan_fft(const node& n, std::uint32_t device,
                                           const kernel::fft& f) {
  return [made = std::make_shared<const plan>(n.ordinal(device), f)](void* stream) {
    made->run(stream);
  };
}

std::function<void(void* stream)> plan_fft(const rank_node& n, std::uint32_t device,
                                           const kernel::fft& f) {
  if (device != n.rank()) return [](void*) {};
  return [made = std::make_shared<const plan>(n.ordinal(device), f)](void* stream) {
    made->run(stream);
  };
}

}  // namespace interlace::cuda
