#include "cuda/mechanism/node_mechanism.hpp"

#include <cuda_runtime.h>

#include <utility>

#include "cuda/epoch/recorder.hpp"
#include "interlace/cuda/check.hpp"
#include "interlace/kernel/partition.hpp"
#include "kernel/packing_tables.hpp"

namespace interlace::cuda {

void node_mechanism::prepare(std::uint32_t /*id*/, kernel::region_state& state) {
  const std::uint64_t bytes = state.elements * state.element_bytes;
  for (std::uint32_t parity = 0; parity < 2; ++parity) {
    for (std::uint32_t d = 0; d < of_.gpus.count(); ++d) {
      state.buffers[d][parity] = of_.arrays.take(d, bytes);
    }
  }
}

void node_mechanism::launch(recorder& to, region_launch l) {
  l.kernel.entry = l.entries.whole;
  to.add_kernel(l.device, std::move(l.kernel));
}

bool node_mechanism::deliver(recorder& /*from*/, std::uint32_t /*id*/, exchange_operation& /*to*/) {
  return true;
}

void node_mechanism::launch_updates(recorder& to, update_launch l) {
  l.kernel.entry = l.entries.whole;
  to.add_kernel(l.device, std::move(l.kernel));
}

void node_mechanism::prepare_updates(std::uint32_t /*id*/, const kernel::region_state& /*state*/) {}

void node_mechanism::deliver_updates(std::uint32_t /*id*/, exchange_operation& /*to*/) {}

void node_mechanism::launch_packing(recorder& to, update_launch l) const {
  const kernel::region_state& s = l.partition;
  const int ordinal = of_.gpus.ordinal(l.device);
  int room = 0;
  INTERLACE_CUDA_CHECK(
      cudaDeviceGetAttribute(&room, cudaDevAttrMaxSharedMemoryPerBlockOptin, ordinal));
  l.kernel.packing =
      kernel::make_packing_table(s, l.device, l.type, l.operation, static_cast<std::uint64_t>(room),
                                 static_cast<std::uint32_t>(ordinal), l.kernel.shape);
  l.kernel.packs = true;
  l.kernel.entry = l.entries.packs;
  to.add_kernel(l.device, std::move(l.kernel));
}

copy_operation copy_of(const kernel::delivery& d, const kernel::region_state& of) {
  const std::uint64_t at = d.begin * of.element_bytes;
  return {.peer = d.to,
          .to = static_cast<std::byte*>(of.buffers[d.to][of.parity ^ 1U]) + at,
          .from = static_cast<const std::byte*>(of.buffers[d.from][of.parity ^ 1U]) + at,
          .bytes = (d.end - d.begin) * of.element_bytes};
}

}  // namespace interlace::cuda
