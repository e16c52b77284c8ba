// Stores wait as under FinePack. A configuration packet says what the packets after it have in
// common.
#include "sim/mechanism/region_mechanisms.hpp"

namespace interlace::sim {

const region_mechanism& config_packet() {
  static const store_mechanism how(store_path::configured);
  return how;
}

}  // namespace interlace::sim
