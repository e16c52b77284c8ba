#include "sim/transfer/copy_resources.hpp"

#include <algorithm>
#include <cmath>

#include "machine/copy_rate.hpp"
#include "machine/route.hpp"

namespace interlace::sim {

using machine::endpoint;
using machine::endpoint_kind;

machine::machine with_copy_rates(machine::machine described) {
  for (machine::link& edge : described.links)
    edge.bytes_per_s = machine::copy_bytes_per_s(edge) * machine::full_packet_bytes(edge.protocol) /
                       edge.protocol.max_payload_bytes;
  return described;
}

picoseconds byte_server::serve(picoseconds time, std::uint64_t bytes) {
  const auto duration =
      static_cast<picoseconds>(std::llround(static_cast<double>(bytes) / bytes_per_s_ * 1e12));
  return server_.reserve(time, duration) + duration;
}

copy_resources::copy_resources(const machine::machine& described) : ends_(described.gpu_count + 1) {
  memories_.assign(described.gpu_count, byte_server(described.gpu.dram.bytes_per_s));
  memories_.emplace_back(described.host.memory_bytes_per_s);
  if (described.host.copy_write_bytes_per_s > 0)
    host_writes_.emplace(described.host.copy_write_bytes_per_s);
  for (const machine::link& edge : described.links) {
    both_.emplace_back();
    if (edge.copy_both_bytes_per_s > 0) both_.back().emplace(edge.copy_both_bytes_per_s);
  }
  ways_.resize(std::size_t{ends_} * ends_);
  const auto place = [&](std::uint32_t end) {
    return end == host() ? endpoint{endpoint_kind::host, 0} : endpoint{endpoint_kind::gpu, end};
  };
  for (std::uint32_t from = 0; from < ends_; ++from) {
    for (std::uint32_t to = 0; to < ends_; ++to) {
      if (from == to) continue;
      const auto found = machine::route(described, place(from), place(to));
      if (!found) continue;
      for (const machine::hop& step : *found)
        ways_[from * ends_ + to].push_back(
            static_cast<std::uint32_t>(step.link * 2 + (step.forward ? 0 : 1)));
    }
  }
}

picoseconds copy_resources::read(std::uint32_t from, std::uint32_t to, picoseconds time,
                                 std::uint64_t bytes) {
  const picoseconds begun = memories_[from].serve(time, bytes);
  picoseconds done = begun;
  // The two servers are reserved at the same time. If a copy reserved the servers one after
  // another, it would block the second server for other copies while it waits for the first server.
  for (const std::uint32_t direction : way(from, to))
    if (auto& both = both_[direction / 2]) done = std::max(done, both->serve(begun, bytes));
  return done;
}

picoseconds copy_resources::write(std::uint32_t to, picoseconds time, std::uint64_t bytes) {
  picoseconds done = memories_[to].serve(time, bytes);
  if (to == host() && host_writes_) done = std::max(done, host_writes_->serve(time, bytes));
  return done;
}

}  // namespace interlace::sim
