#include "sim/remote/iommu.hpp"

#include <algorithm>
#include <string>

#include "interlace/base/errors.hpp"
#include "sim/fabric/protocol.hpp"

namespace interlace::sim {

iommu::iommu(const machine::tlb& config, std::uint32_t gpus, event_queue& queue, fabric& links)
    : walk_(config.walk_ps), queue_(queue), fabric_(links) {
  for (std::uint32_t k = 0; k < config.walks; ++k) free_.push(0);
  for (std::uint32_t g = 0; g < gpus; ++g) {
    if (fabric_.reaches(g, fabric_.host()) && fabric_.reaches(fabric_.host(), g)) continue;
    throw usage_error(
        "no link leads from gpu" + std::to_string(g) +
        " to the host, which translates addresses; leave out the table [gpu.tlb] or add "
        "one");
  }
}

void iommu::delivered(const message& m) {
  const picoseconds end = std::max(queue_.now(), free_.top()) + walk_;
  free_.pop();
  free_.push(end);
  queue_.push(end, event_kind::page_walked, m.from, 0, m.address);
}

void iommu::walked(std::uint32_t gpu, std::uint64_t page) {
  const walk_end end = decide_ ? decide_(gpu, page) : walk_end::kept;
  if (end != walk_end::taken) answer(gpu, page, end == walk_end::kept);
}

void iommu::answer(std::uint32_t gpu, std::uint64_t page, bool kept) {
  message m;
  m.kind = message_kind::translation_reply;
  m.from = static_cast<std::uint8_t>(fabric_.host());
  m.to = static_cast<std::uint8_t>(gpu);
  m.address = page;
  m.unit = kept ? 1 : 0;
  m.payload = reply_bytes;
  m.wire = read_reply_bytes(fabric_.protocol(fabric_.host(), gpu), reply_bytes);
  ++counts_.replies;
  counts_.payload += m.payload;
  counts_.wire += m.wire;
  fabric_.send(queue_.now(), m);
}

}  // namespace interlace::sim
