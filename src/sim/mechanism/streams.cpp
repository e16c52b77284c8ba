#include "sim/mechanism/streams.hpp"

#include <algorithm>
#include <cstring>

namespace interlace::sim {

streams::streams(std::uint32_t devices, simulation& tasks, arena& memory,
                 std::vector<kernel::region_state>& regions)
    : simulation_(tasks), arena_(memory), regions_(regions), streams_(devices) {
  for (stream& s : streams_) s.last_copy.assign(devices, none);
}

void streams::add_kernel(std::uint32_t device, grid shape, recorder::settings record,
                         block_function block, store_path path) {
  stream& s = streams_[device];
  s.last = {simulation_.add_kernel(device, shape, std::move(record), std::move(block), s.last,
                                   nullptr, path)};
}

task_id streams::add_copy(std::uint32_t region, std::uint32_t from, std::uint64_t begin,
                          std::uint64_t end, const std::vector<std::uint32_t>& to,
                          simulation::copy_request how, const std::vector<task_id>& after) {
  const kernel::region_state& state = regions_[region];
  const std::uint32_t back = state.parity ^ 1U;
  const std::uint64_t offset = begin * state.element_bytes;
  const std::byte* source = static_cast<const std::byte*>(state.buffers[from][back]) + offset;
  how.from = from;
  how.address = arena_.address(source);
  how.bytes = (end - begin) * state.element_bytes;
  std::vector<std::byte*> targets;
  for (const std::uint32_t d : to) {
    targets.push_back(static_cast<std::byte*>(state.buffers[d][back]) + offset);
    how.to.push_back({d, arena_.address(targets.back())});
  }
  how.arrived = [source, targets, bytes = how.bytes] {
    for (std::byte* target : targets) std::memcpy(target, source, bytes);
  };
  return simulation_.add_copy(std::move(how), after);
}

void streams::add_copy_to(std::uint32_t from, std::uint32_t to, const void* source, void* target,
                          std::uint64_t bytes) {
  stream& s = streams_[from];
  std::vector<task_id> before = s.last;
  if (s.last_copy[to] != none) before.push_back(s.last_copy[to]);
  auto* arriving = static_cast<std::byte*>(target);
  const auto* leaving = static_cast<const std::byte*>(source);
  simulation::copy_request how;
  how.from = from;
  how.address = arena_.address(leaving);
  how.bytes = bytes;
  how.to.push_back({to, arena_.address(arriving)});
  how.arrived = [arriving, leaving, bytes] { std::memcpy(arriving, leaving, bytes); };
  s.last_copy[to] = simulation_.add_copy(std::move(how), before);
  s.copies.push_back(s.last_copy[to]);
}

void streams::add_copies(std::uint32_t region, const std::vector<kernel::delivery>& deliveries,
                         const std::vector<task_id>& after) {
  for (const kernel::delivery& d : deliveries) {
    stream& s = streams_[d.from];
    std::vector<task_id> before = after;
    if (s.last_copy[d.to] != none) before.push_back(s.last_copy[d.to]);
    const task_id id = add_copy(region, d.from, d.begin, d.end, {d.to}, {}, before);
    s.last_copy[d.to] = id;
    s.copies.push_back(id);
  }
}

std::vector<kernel::delivery> streams::deliveries_of(std::uint32_t region,
                                                     std::uint32_t device) const {
  const auto& boundaries = regions_[region].options.boundaries;
  return regions_[region].deliveries(device, {{boundaries[device], boundaries[device + 1]}});
}

const std::byte* streams::counters(std::uint32_t device, std::uint32_t region, std::size_t chunks) {
  auto& counters = counters_[{device, region}];
  if (counters == nullptr) {
    counters = arena_.take(device, std::max<std::size_t>(1, chunks) * sizeof(std::uint64_t));
  }
  return counters;
}

}  // namespace interlace::sim
