#include "sim/mechanism/load_mechanisms.hpp"

namespace interlace::sim {

std::unique_ptr<load_mechanism> make_load_mechanism(const kernel::remote_load_options& options,
                                                    const hardware& parts) {
  switch (options.pages) {
    case kernel::page_moves::first_touch:
      return make_page_migration(parts);
    case kernel::page_moves::griffin:
      return make_griffin(parts);
    case kernel::page_moves::none:
      break;
  }
  return options.treats_loads() ? make_dualopt(options, parts) : nullptr;
}

}  // namespace interlace::sim
