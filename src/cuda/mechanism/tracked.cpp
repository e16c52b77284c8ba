#include "cuda/mechanism/tracked.hpp"

#include <utility>

#include "cuda/epoch/recorder.hpp"
#include "cuda/region/agent.hpp"
#include "interlace/base/errors.hpp"
#include "interlace/kernel/type_name.hpp"

namespace interlace::cuda {

void tracked_mechanism::choose_entry(kernel_operation& k, const kernel_entries& entries,
                                     const kernel::region_options& /*how*/) const {
  k.entry = entries.announces;
}

const tracked_region& tracked_mechanism::track(std::uint32_t device, std::uint32_t id,
                                               std::uint64_t blocks,
                                               const kernel::block_mapping& mapping) {
  for (const auto& known : tracked_[device]) {
    if (known->table.region == id && known->blocks == blocks &&
        known->mapping.identity() == mapping.identity()) {
      return *known;
    }
  }
  const kernel::region_state& s = region(id);
  auto made = std::make_unique<tracked_region>();
  made->by = this;
  made->mapping = mapping;
  made->blocks = blocks;
  made->chunks = kernel::cut_chunks(s, device);
  made->announced =
      kernel::announce(made->chunks, mapping, blocks,
                       {s.options.boundaries[device], s.options.boundaries[device + 1]});
  for (const auto& known : tracked_[device]) {
    if (known->table.region == id && known->announced == made->announced) return *known;
  }
  static_cast<launch_tracking&>(*made) = make_tracking(
      memory_, of().gpus.ordinal(device), made->chunks, made->announced, id, s, waiter());
  of().gpus.watch(device, made->table);
  tracked_[device].push_back(std::move(made));
  return *tracked_[device].back();
}

void tracked_mechanism::launch(recorder& to, region_launch l) {
  const kernel::region_state& s = region(l.region);
  kernel_operation& k = l.kernel;
  const std::uint32_t device = l.device;
  choose_entry(k, l.entries, s.options);
  check_launch(of().gpus.count(), device, k);
  if (k.shape.blocks == 0) return;
  const current_device restore(of().gpus.ordinal(device));
  check(k, s.options, of().gpus.ordinal(device));
  const tracked_region& t = track(device, l.region, k.shape.blocks, l.mapping);
  if (to.launched(device, l.region) != nullptr) {
    throw model_error("two launches of one epoch write region " + std::to_string(l.region) +
                      "; under " + kernel::mechanism_name(s.options.mechanism) +
                      " an epoch takes one launch, so call exchange before the second launch");
  }
  k.tracked = &t;
  k.where.from = static_cast<const std::byte*>(s.buffers[device][s.parity ^ 1U]);
  for (std::uint32_t d = 0; d < of().gpus.count(); ++d) {
    k.where.to[d] = static_cast<std::byte*>(s.buffers[d][s.parity ^ 1U]);
  }
  to.add_kernel(device, std::move(k));
  to.set_launched(device, l.region, t);
  if (s.options.transfers) to.add_pending(device, streams(device, t));
}

bool tracked_mechanism::deliver(recorder& from, std::uint32_t id, exchange_operation& to) {
  for (std::uint32_t d = 0; d < of().gpus.count(); ++d) {
    const tracked_region* launched = from.launched(d, id);
    if (launched == nullptr) continue;
    exchange_arguments& a = to.first[d];
    a.launches[a.tracked++] = launched->over();
    from.end_launched(d, id);
  }
  return true;
}

void tracked_mechanism::enqueue(issuer& to, std::uint32_t device, const kernel_operation& k,
                                stopwatch* watch) const {
  node_gpus& gpus = of().gpus;
  gpus.set_streams_wait(true);
  const tracked_region& t = *k.tracked;
  const kernel::region_options& how = region(t.table.region).options;
  const bool draw = watch != nullptr && watch->draws();
  const enqueued l{.to = to,
                   .device = device,
                   .kernel = k,
                   .tracked = t,
                   .how = how,
                   .draws = draw ? watch : nullptr};
  cudaStream_t stream = gpus.streams()[device];
  INTERLACE_CUDA_CHECK(cudaEventRecord(gpus.event(device), stream));
  if (how.transfers && !t.chunks.empty()) enqueue_ahead(l);
  cudaEvent_t begin = draw ? watch->mark(stream) : nullptr;
  to.issue_kernel(device, k);
  if (draw) {
    watch->span(device, "kernel", kernel::readable_type_name(k.type_name), begin,
                watch->mark(stream));
  }
  if (t.chunks.empty()) return;
  // The check is enqueued before the streams' waits. If the check finds an error, it releases these
  // waits.
  launch_check(gpus.barrier(device, node_gpus::no_exchange), t.table, stream);
  if (how.transfers) enqueue_after(l);
}

}  // namespace interlace::cuda
