// Stores to the same line wait in a queue and leave as one store.
#include "sim/mechanism/region_mechanisms.hpp"

namespace interlace::sim {

const region_mechanism& write_combining() {
  static const store_mechanism how(store_path::combined);
  return how;
}

}  // namespace interlace::sim
