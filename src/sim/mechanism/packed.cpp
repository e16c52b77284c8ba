// Warps of the kernels make packets of updates and store them in the owners' queues. Each line of a
// packet leaves as one store.
#include "sim/mechanism/region_mechanisms.hpp"

namespace interlace::sim {

const region_mechanism& packed() {
  static const store_mechanism how(store_path::packets);
  return how;
}

}  // namespace interlace::sim
