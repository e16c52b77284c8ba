// Runs the kernel of smooth.hpp on the GPUs of this machine, with every mechanism that needs no
// other library.
#include "smooth.hpp"

#include <cstdio>
#include <exception>

#include <interlace/base/errors.hpp>
#include <interlace/cuda/node.hpp>
#include <interlace/cuda/visible_gpus.hpp>

int main() {
  using namespace interlace;
  std::vector<float> start(10000, 0.0F);
  start[0] = 1.0F;
  try {
    for (const char* how : {"bulk-copy", "split", "inline", "polling", "copy-engine"}) {
      cuda::node_options options;
      options.devices = cuda::device_count();  // throws usage_error if there is no GPU
      cuda::node gpus(options);
      const auto u = smooth_ring(gpus, start, 20, kernel::parse_mechanism(how));
      std::printf("%u GPUs, %s: element 0 is %.6f\n", gpus.devices(), how, u[0]);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "smooth: %s\n", error.what());
    return 2;
  }
}
