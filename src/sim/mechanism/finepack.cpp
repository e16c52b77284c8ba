// Stores to a window of addresses wait in a queue and leave as one packet.
#include "sim/mechanism/region_mechanisms.hpp"

namespace interlace::sim {

const region_mechanism& finepack() {
  static const store_mechanism how(store_path::packed);
  return how;
}

}  // namespace interlace::sim
