// smooth.hpp on the reference node and on a simulated machine.
#include "smooth.hpp"

#include <cstdio>

#include "../../tests/cpp/sim/described.hpp"
#include "interlace/host/node.hpp"
#include "interlace/sim/node.hpp"

int main() {
  using namespace interlace;
  std::vector<float> start(10000, 0.0F);
  start[0] = 1.0F;
  host::node plain({.devices = 2, .warp_width = 32, .checks = true});
  const auto expected = smooth_ring(plain, start, 20, kernel::mechanism::bulk_copy);
  bool same = true;
  for (const char* how : {"bulk-copy", "split", "inline", "infinite-bandwidth"}) {
    sim::node simulated(test::meshed(2, machine::protocol_kind::nvlink2), 2, [] {});
    same = same && smooth_ring(simulated, start, 20, kernel::parse_mechanism(how)) == expected;
  }
  std::printf("element 0 is %.6f; the nodes %s\n", expected[0], same ? "agree" : "differ");
  return same ? 0 : 1;
}
