#include "cuda/epoch/recorder.hpp"
#include "cuda/mechanism/region_mechanism.hpp"
#include "cuda/mechanism/table.hpp"
#include "interlace/kernel/partition.hpp"

namespace interlace::cuda {

namespace {

class bulk_copy final : public node_mechanism {
 public:
  using node_mechanism::node_mechanism;

  bool deliver(recorder& /*from*/, std::uint32_t id, exchange_operation& to) override {
    const kernel::region_state& s = region(id);
    if (!s.options.transfers) return true;
    for (std::uint32_t d = 0; d < of().gpus.count(); ++d) {
      const kernel::element_range own{s.options.boundaries[d], s.options.boundaries[d + 1]};
      for (const kernel::delivery& k : s.deliveries(d, {own})) {
        to.join[d] |= 1U << k.to;
        to.copies[d].push_back(copy_of(k, s));
      }
    }
    return true;
  }

  void deliver_updates(std::uint32_t id, exchange_operation& to) override {
    for (std::uint32_t d = 0; d < of().gpus.count(); ++d) {
      for (const kernel::contribution& c : kernel::contributions_of(region(id), d)) {
        to.join[d] |= 1U << c.to;
        to.copies[d].push_back({.peer = c.to, .to = c.inbox, .from = c.from, .bytes = c.bytes});
      }
    }
  }
};

class bulk_copy_of_region final : public region_mechanism {
 public:
  void deliver(const kernel::region_state& state, const region_side& s) const override {
    copy_part(state, s);
  }
};

}  // namespace

std::unique_ptr<node_mechanism> make_bulk_copy(const node_parts& of) {
  return std::make_unique<bulk_copy>(of);
}

const region_mechanism& region_by_bulk_copy() {
  static const bulk_copy_of_region how;
  return how;
}

}  // namespace interlace::cuda
