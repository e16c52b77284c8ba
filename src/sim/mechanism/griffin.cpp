// Pages move to the GPUs that access them most. A page can move more than once.
#include "sim/remote/griffin.hpp"

#include "interlace/base/errors.hpp"
#include "sim/mechanism/load_mechanisms.hpp"
#include "sim/remote/page_port.hpp"

namespace interlace::sim {

namespace {

class moved_by_accesses final : public load_mechanism {
 public:
  explicit moved_by_accesses(const hardware& parts)
      : ports_(parts.gpus, parts.queue, true),
        // The TLBs and unified memory use the same page size.
        first_page_(parts.addresses.unified_slot() / parts.addresses.page_bytes),
        driver_(parts.described.gpu, parts.addresses.homes, parts.addresses.unified_slot(),
                static_cast<std::uint32_t>(parts.addresses.page_bytes), parts.queue, parts.links,
                ports_.all(),
                [this, walks = parts.page_walks](std::uint32_t gpu, std::uint64_t page, bool kept) {
                  walks->answer(gpu, page + first_page_, kept);
                }) {
    ports_.moved_by(&driver_);
    parts.page_walks->decide([this](std::uint32_t gpu, std::uint64_t page) {
      return page < first_page_ ? walk_end::kept : driver_.walked(gpu, page - first_page_);
    });
  }

  void delivered(const message& m) override { driver_.delivered(m); }
  bool outlasts_tasks() const override { return true; }
  bool empty() const override { return driver_.empty(); }
  outcome found(picoseconds /*now*/) const override {
    const griffin::counts& c = driver_.counted();
    outcome o;
    o.moved = c.moved;
    o.moved_again = c.again;
    o.delayed = c.delayed;
    o.batches = c.batches;
    return o;
  }

 private:
  page_ports ports_;
  std::uint64_t first_page_;
  griffin driver_;
};

}  // namespace

std::unique_ptr<load_mechanism> make_griffin(const hardware& parts) {
  const machine::gpu& g = parts.described.gpu;
  if (g.griffin.batch_pages == 0 || g.tlb.page_bytes == 0) {
    throw usage_error(
        "the machine has no hardware for griffin; add tables [gpu.tlb] and "
        "[gpu.griffin], as in 4x-r9nano, or use another mechanism");
  }
  return std::make_unique<moved_by_accesses>(parts);
}

}  // namespace interlace::sim
