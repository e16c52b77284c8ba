// A page moves once, to the first remote GPU that touches it.
#include "sim/remote/page_migration.hpp"

#include <string>

#include "interlace/base/errors.hpp"
#include "sim/mechanism/load_mechanisms.hpp"
#include "sim/remote/page_port.hpp"

namespace interlace::sim {

namespace {

class moved_once final : public load_mechanism {
 public:
  explicit moved_once(const hardware& parts)
      : ports_(parts.gpus, parts.queue, false),
        driver_(parts.addresses.homes, parts.addresses.unified_slot(),
                static_cast<std::uint32_t>(parts.addresses.page_bytes), parts.queue, parts.links,
                ports_.all()) {
    ports_.moved_by(&driver_);
    if (parts.page_walks == nullptr) return;
    // The TLBs and unified memory use the same page size.
    const std::uint64_t first = parts.addresses.unified_slot() / parts.addresses.page_bytes;
    parts.page_walks->decide([this, first](std::uint32_t gpu, std::uint64_t page) {
      if (page < first || driver_.usable(gpu, page - first)) return walk_end::kept;
      driver_.fault_at_host(gpu, page - first);
      return walk_end::taken;
    });
  }

  void delivered(const message& m) override { driver_.delivered(m); }
  bool empty() const override { return driver_.empty(); }
  outcome found(picoseconds /*now*/) const override {
    outcome o;
    o.moved = driver_.counted();
    return o;
  }

 private:
  page_ports ports_;
  page_migration driver_;
};

}  // namespace

std::unique_ptr<load_mechanism> make_page_migration(const hardware& parts) {
  const std::uint32_t host = parts.links.host();
  for (std::uint32_t g = 0; g < parts.gpus.size() && parts.gpus.size() > 1; ++g) {
    if (parts.links.reaches(g, host) && parts.links.reaches(host, g)) continue;
    throw usage_error("no link leads from gpu" + std::to_string(g) +
                      " to the host, which moves pages; use another mechanism than "
                      "page-migration");
  }
  return std::make_unique<moved_once>(parts);
}

}  // namespace interlace::sim
