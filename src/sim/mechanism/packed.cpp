// The warps of kernels pack updates into packets and store the packets in the owners' queues. Each
// line of a packet leaves as one store.
#include "sim/mechanism/region_mechanisms.hpp"

namespace interlace::sim {

const region_mechanism& packed() {
  static const store_mechanism how(store_path::packets);
  return how;
}

}  // namespace interlace::sim
