#include <utility>

#include "cuda/epoch/recorder.hpp"
#include "cuda/mechanism/region_mechanism.hpp"
#include "cuda/mechanism/table.hpp"

namespace interlace::cuda {

namespace {

// Each store of the kernel also goes to each subscriber. The exchange therefore moves no data.
class inline_stores final : public node_mechanism {
 public:
  using node_mechanism::node_mechanism;

  void prepare(std::uint32_t id, kernel::region_state& state) override {
    node_mechanism::prepare(id, state);
    if (!kernel::stores_to_readers(state.options)) return;
    const std::vector<std::uint16_t>& readers = state.options.readers;
    for (std::uint32_t d = 0; d < of().gpus.count(); ++d) {
      void* placed = of().arrays.take(d, readers.size() * sizeof(std::uint16_t));
      of().arrays.write(placed, readers.data(), readers.size() * sizeof(std::uint16_t));
      state.readers[d] = static_cast<const std::uint16_t*>(placed);
    }
  }

  void launch(recorder& to, region_launch l) override {
    l.kernel.entry = l.entries.stores_inline;
    to.add_kernel(l.device, std::move(l.kernel));
  }
};

class inline_stores_of_region final : public region_mechanism {
 public:
  bool stores_to_peers() const override { return true; }
  void deliver(const kernel::region_state& /*state*/, const region_side& /*s*/) const override {}
};

}  // namespace

std::unique_ptr<node_mechanism> make_inline_stores(const node_parts& of) {
  return std::make_unique<inline_stores>(of);
}

const region_mechanism& region_by_inline_stores() {
  static const inline_stores_of_region how;
  return how;
}

}  // namespace interlace::cuda
