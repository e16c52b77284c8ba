// smooth.hpp on this machine's GPUs, by every mechanism that they run.
#include "smooth.hpp"

#include <cstdio>

#include "interlace/cuda/node.hpp"
#include "interlace/cuda/visible_gpus.hpp"

int main() {
  using namespace interlace;
  std::vector<float> start(10000, 0.0F);
  start[0] = 1.0F;
  for (const char* how : {"bulk-copy", "split", "inline"}) {
    cuda::node_options options;
    options.devices = cuda::device_count();
    cuda::node gpus(options);
    const auto u = smooth_ring(gpus, start, 20, kernel::parse_mechanism(how));
    std::printf("%u GPUs, %s: element 0 is %.6f\n", gpus.devices(), how, u[0]);
  }
}
