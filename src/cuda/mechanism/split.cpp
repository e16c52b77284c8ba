#include <utility>

#include "cuda/epoch/recorder.hpp"
#include "cuda/mechanism/table.hpp"

namespace interlace::cuda {

namespace {

// The kernel is launched several times, over ranges of its blocks. After each range, copies move
// the elements that are now complete.
class split final : public node_mechanism {
 public:
  using node_mechanism::node_mechanism;

  void launch(recorder& to, region_launch l) override {
    const kernel::region_state& s = region(l.region);
    const std::uint64_t blocks = l.kernel.shape.blocks;
    for (const auto& part : l.mapping.split(blocks, s.options.split_ranges)) {
      kernel_operation k = l.kernel;
      k.entry = l.entries.ranged;
      k.first = static_cast<std::uint32_t>(part.first_block);
      k.total = static_cast<std::uint32_t>(blocks);
      k.shape.blocks = part.last_block - part.first_block;
      to.add_kernel(l.device, std::move(k));
      std::vector<copy_operation> copies;
      for (const kernel::delivery& d : s.deliveries(l.device, part.complete)) {
        copies.push_back(copy_of(d, s));
      }
      to.add_copies(l.device, std::move(copies));
    }
  }
};

}  // namespace

std::unique_ptr<node_mechanism> make_split(const node_parts& of) {
  return std::make_unique<split>(of);
}

}  // namespace interlace::cuda
