#include "sim/mechanism/tracked.hpp"

#include <memory>
#include <string>

#include "interlace/base/errors.hpp"

namespace interlace::sim {

void tracked_mechanism::launch(const region_launch& l, streams& on) const {
  const kernel::region_options& how = on.region(l.region).options;
  const std::uint32_t device = l.device;
  streams::stream& s = on[device];
  if (!s.tracked.insert(l.region).second) {
    throw model_error("two launches of one epoch write region " + std::to_string(l.region) +
                      "; under " + kernel::mechanism_name(how.mechanism) +
                      " an epoch takes one launch, so call exchange before the second launch");
  }
  auto t = std::make_shared<simulation::tracked_launch>();
  t->chunks = kernel::cut_chunks(on.region(l.region), device);
  t->left = kernel::announce(t->chunks, l.mapping, l.shape.blocks,
                             {how.boundaries[device], how.boundaries[device + 1]})
                .targets;
  t->threads_a_block = l.shape.threads;
  recorder::settings record = l.record;
  if (!t->chunks.empty()) t->agent_warps = agent_warps(how, record.warp_width);
  simulation::copy_request request = mover(how);
  request.held = true;
  request.moves = how.transfers;
  std::vector<task_id> last_to(on.devices(), none);
  for (const kernel::chunk& c : t->chunks) {
    std::vector<std::uint32_t> peers;
    for (std::uint32_t step = 1; step < on.devices(); ++step) {
      const std::uint32_t to = (device + step) % on.devices();
      if ((c.peers >> to & 1U) != 0) peers.push_back(to);
    }
    const auto& copies = t->copies.emplace_back(add_copies(l, c, peers, request, last_to, on));
    s.copies.insert(s.copies.end(), copies.begin(), copies.end());
  }
  if (counts_in_memory()) record.counters = on.counters(device, l.region, t->chunks.size());
  record.chunks = &t->chunks;
  s.last = {on.tasks().add_kernel(
      device, l.shape, record,
      [block = l.block, mapping = l.mapping](std::uint64_t index, recorder& r,
                                             kernel::block_memory& m) {
        block(index, r, m);
        r.finish(mapping.writes(index));
      },
      s.last, t)};
}

std::vector<task_id> tracked_mechanism::add_copies(const region_launch& l, const kernel::chunk& c,
                                                   const std::vector<std::uint32_t>& peers,
                                                   const simulation::copy_request& how,
                                                   std::vector<task_id>& /*last_to*/,
                                                   streams& on) const {
  return {on.add_copy(l.region, l.device, c.begin, c.end, peers, how, {})};
}

void tracked_mechanism::exchange(std::uint32_t region, streams& on,
                                 region_exchange& /*work*/) const {
  if (on.devices() == 1) return;
  for (std::uint32_t d = 0; d < on.devices(); ++d) {
    if (on[d].tracked.erase(region) != 0 || kernel::cut_chunks(on.region(region), d).empty()) {
      continue;
    }
    throw model_error("region " + std::to_string(region) +
                      " is exchanged, but no launch of device " + std::to_string(d) +
                      " wrote it in this epoch");
  }
}

}  // namespace interlace::sim
