// Stores wait as under FinePack. Then each store leaves as a packet of its own. A configuration
// packet before these packets holds their common fields.
#include "sim/mechanism/region_mechanisms.hpp"

namespace interlace::sim {

const region_mechanism& config_packet() {
  static const store_mechanism how(store_path::configured);
  return how;
}

}  // namespace interlace::sim
