// Runs the kernel of smooth.hpp on the reference node and on a simulated machine, with several
// mechanisms.
#include "smooth.hpp"

#include <cstdio>

#include <interlace/host/node.hpp>
#include <interlace/sim/node.hpp>

#include "volta.hpp"  // interlace topo 4x-volta-nvlink2 --header volta.hpp writes this header

int main() {
  using namespace interlace;
  std::vector<float> start(10000, 0.0F);
  start[0] = 1.0F;
  host::node plain({.devices = 4, .warp_width = 32, .checks = true});
  const auto expected = smooth_ring(plain, start, 20, kernel::mechanism::bulk_copy);
  for (const char* how : {"bulk-copy", "split", "inline", "infinite-bandwidth"}) {
    sim::node simulated(volta(), 4, [] {});
    const auto found = smooth_ring(simulated, start, 20, kernel::parse_mechanism(how));
    std::printf("%s: the nodes %s\n", how, found == expected ? "agree" : "differ");
    if (found != expected) return 1;
  }
  std::printf("element 0 is %.6f\n", expected[0]);
}
