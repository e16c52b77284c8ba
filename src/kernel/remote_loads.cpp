#include "kernel/remote_loads.hpp"

#include "base/errors.hpp"

namespace interlace::kernel {

remote_load_options parse_remote_loads(const std::string& name) {
  remote_load_options o;
  if (name == "direct") return o;
  if (name == "page-migration") {
    o.pages = page_moves::first_touch;
    return o;
  }
  if (name == "griffin") {
    o.pages = page_moves::griffin;
    return o;
  }
  if (name == "rdma-cache") {
    o.steps.cache = true;
    return o;
  }
  o.pack = name == "finepack" || name == "dualopt-finepack";
  o.watch = name == "dualopt-adaptive";
  o.decide = name == "dualopt" || name == "dualopt-finepack" || o.watch;
  if (o.pack || o.decide) return o;
  if (name == "dualopt-pages") {
    o.each_page = true;
    return o;
  }
  o.steps.bypass = true;
  if (name == "bypass") return o;
  o.steps.fine = true;
  if (name == "fine-grained") return o;
  o.steps.coalesce = true;
  if (name == "coalesced") return o;
  throw usage_error(
      "unknown mechanism '" + name +
      "' for remote loads; there are direct, page-migration, griffin, bypass, fine-grained, "
      "coalesced, rdma-cache, dualopt, dualopt-adaptive, dualopt-pages, finepack and "
      "dualopt-finepack");
}

}  // namespace interlace::kernel
