#include "kernel/packing_tables.hpp"

#include "interlace/kernel/partition.hpp"

namespace interlace::kernel {

namespace {

constexpr std::uint32_t warp_lanes_of_gpus = 32;

}  // namespace

packing_table make_packing_table(const region_state& state, std::uint32_t device, number_type type,
                                 combine operation, std::uint64_t room, std::uint32_t gpu,
                                 grid& shape) {
  check_packing(state, shape, warp_lanes_of_gpus, room, gpu);
  packing_table table;
  table.queues = queues_of(state, device);
  table.bins = packing_bins(state);
  table.value_bytes = state.element_bytes;
  table.capacity = table.queues.capacity(state.element_bytes);
  table.offsets_at = table.queues.offsets_at(state.element_bytes);
  table.type = type;
  table.operation = operation;
  for (std::uint32_t d = 0; d < state.devices(); ++d) table.parts[d] = state.buffers[d][0];
  table.shared_at = (shape.shared_bytes + 15) / 16 * 16;
  shape.shared_bytes = table.shared_at + packing_bytes(state, shape.threads, warp_lanes_of_gpus);
  return table;
}

std::string describe_mistake(const update_mistake& mistake, std::uint32_t device,
                             std::uint64_t elements) {
  return "lane " + std::to_string(mistake.lane) + " of block " + std::to_string(mistake.block) +
         " of device " + std::to_string(device) + " updates element " +
         std::to_string(mistake.element) + " of a partitioned array of " + std::to_string(elements);
}

}  // namespace interlace::kernel
