// Stores wait in a queue, as in FinePack. Each store leaves the queue as a packet of its own. A
// configuration packet precedes these packets and holds their common fields.
#include "sim/mechanism/region_mechanisms.hpp"

namespace interlace::sim {

const region_mechanism& config_packet() {
  static const store_mechanism how(store_path::configured);
  return how;
}

}  // namespace interlace::sim
