// Warps of the kernels make packets of updates and store them in the owners' queues.
#include <algorithm>
#include <cstdint>
#include <utility>

#include "cuda/epoch/recorder.hpp"
#include "cuda/mechanism/table.hpp"
#include "interlace/kernel/partition.hpp"

namespace interlace::cuda {

namespace {

class packed final : public node_mechanism {
 public:
  using node_mechanism::node_mechanism;

  void launch_updates(recorder& to, update_launch l) override { launch_packing(to, std::move(l)); }
};

}  // namespace

void launch_packing(recorder& to, update_launch l) {
  const kernel::region_state& s = l.partition;
  kernel::packing_table& table = l.kernel.packing;
  table.queues = kernel::queues_of(s, l.device);
  table.bins = kernel::packing_bins(s);
  table.value_bytes = s.element_bytes;
  table.capacity = table.queues.capacity(s.element_bytes);
  table.offsets_at = table.queues.offsets_at(s.element_bytes);
  table.type = l.type;
  table.operation = l.operation;
  for (std::uint32_t d = 0; d < s.devices(); ++d) table.parts[d] = s.buffers[d][0];
  table.shared_at = (l.kernel.shape.shared_bytes + 15) / 16 * 16;
  l.kernel.shape.shared_bytes =
      table.shared_at + kernel::packing_bytes(s, l.kernel.shape.threads, 32);
  l.kernel.packs = true;
  l.kernel.entry = l.entries.packs;
  to.add_kernel(l.device, std::move(l.kernel));
}

std::unique_ptr<node_mechanism> make_packed(const node_parts& of) {
  return std::make_unique<packed>(of);
}

}  // namespace interlace::cuda
