// Each store goes to each subscriber as packets of its own.
#include "sim/mechanism/region_mechanisms.hpp"

namespace interlace::sim {

const region_mechanism& inline_stores() {
  static const store_mechanism how(store_path::packets);
  return how;
}

}  // namespace interlace::sim
