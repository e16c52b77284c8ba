#include "kernel/collective.hpp"

#include <algorithm>
#include <string>

#include "interlace/base/errors.hpp"

namespace interlace::kernel {

namespace {

using call = collective_call;

bool equal_parts(const std::vector<std::uint64_t>& boundaries) {
  for (std::size_t d = 1; d + 1 < boundaries.size(); ++d) {
    if (boundaries[d + 1] - boundaries[d] != boundaries[1] - boundaries[0]) return false;
  }
  return true;
}

collective best(const region_state& s) {
  if (!s.options.subscribers.empty()) return collective::send_receive;
  return equal_parts(s.options.boundaries) ? collective::all_gather : collective::broadcast;
}

void plan_all_gather(const region_state& s, collective_plan& plan) {
  const auto& cut = s.options.boundaries;
  if (equal_parts(cut)) {
    const std::uint64_t part = (cut[1] - cut[0]) * s.element_bytes;
    for (auto& calls : plan.calls) {
      if (part != 0) calls.push_back({call::kind::all_gather, 0, 0, part});
    }
    return;
  }
  std::uint64_t part = 0;
  for (std::uint32_t d = 0; d < s.devices(); ++d) part = std::max(part, cut[d + 1] - cut[d]);
  part *= s.element_bytes;
  part = (part + scratch_alignment - 1) / scratch_alignment * scratch_alignment;
  plan.scratch_bytes = s.devices() * part;
  for (std::uint32_t d = 0; d < s.devices(); ++d) {
    plan.calls[d].push_back({call::kind::all_gather, 0, 0, part});
    for (std::uint32_t owner = 0; owner < s.devices(); ++owner) {
      const std::uint64_t at = cut[owner] * s.element_bytes;
      const std::uint64_t bytes = (cut[owner + 1] - cut[owner]) * s.element_bytes;
      if (bytes == 0) continue;
      if (owner == d) {
        plan.pack[d].push_back({at, owner * part, bytes});
      } else {
        plan.unpack[d].push_back({owner * part, at, bytes});
      }
    }
  }
}

void plan_broadcasts(const region_state& s, collective_plan& plan) {
  const auto& cut = s.options.boundaries;
  for (std::uint32_t owner = 0; owner < s.devices(); ++owner) {
    const std::uint64_t bytes = (cut[owner + 1] - cut[owner]) * s.element_bytes;
    if (bytes == 0) continue;
    for (auto& calls : plan.calls) {
      calls.push_back({call::kind::broadcast, owner, cut[owner] * s.element_bytes, bytes});
    }
  }
}

// Plans sends and receives. Between two devices, the k-th send matches the k-th receive.
void plan_sends(const region_state& s, collective_plan& plan) {
  for (const delivery& d : s.deliveries()) {
    const std::uint64_t at = d.begin * s.element_bytes;
    const std::uint64_t bytes = (d.end - d.begin) * s.element_bytes;
    plan.calls[d.from].push_back({call::kind::send, d.to, at, bytes});
    plan.calls[d.to].push_back({call::kind::receive, d.from, at, bytes});
  }
}

}  // namespace

collective_plan plan_collective(const region_state& state) {
  collective_plan plan;
  plan.how = state.options.collective;
  if (plan.how == collective::best_fitting) plan.how = best(state);
  if (plan.how != collective::send_receive && !state.options.subscribers.empty()) {
    throw usage_error(std::string("nccl's ") + collective_name(plan.how) +
                      " sends everything to everybody, but the region names who receives which "
                      "range; use send-receive");
  }
  plan.pack.resize(state.devices());
  plan.calls.resize(state.devices());
  plan.unpack.resize(state.devices());
  if (state.devices() == 1) return plan;
  switch (plan.how) {
    case collective::all_gather:
      plan_all_gather(state, plan);
      break;
    case collective::broadcast:
      plan_broadcasts(state, plan);
      break;
    default:
      plan_sends(state, plan);
  }
  return plan;
}

}  // namespace interlace::kernel
