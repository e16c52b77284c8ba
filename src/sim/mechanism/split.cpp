// The kernel is launched over ranges of its blocks. After each launch, copies move the elements
// that the launch wrote.
#include "sim/mechanism/region_mechanisms.hpp"

namespace interlace::sim {

namespace {

class launched_in_parts final : public region_mechanism {
 public:
  void launch(const region_launch& l, streams& on) const override {
    const kernel::region_state& state = on.region(l.region);
    for (const auto& part : l.mapping.split(l.shape.blocks, state.options.split_ranges)) {
      grid range = l.shape;
      range.blocks = part.last_block - part.first_block;
      on.add_kernel(
          l.device, range, l.record,
          [block = l.block, first = part.first_block](std::uint64_t index, recorder& r,
                                                      kernel::block_memory& m) {
            block(first + index, r, m);
          },
          path());
      on.add_copies(l.region, state.deliveries(l.device, part.complete), on[l.device].last);
    }
  }
};

}  // namespace

const region_mechanism& split() {
  static const launched_in_parts how;
  return how;
}

}  // namespace interlace::sim
