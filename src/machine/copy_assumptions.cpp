#include "machine/copy_assumptions.hpp"

#include <algorithm>

#include "machine/copy_rate.hpp"

namespace interlace::machine {

void assume_copies(machine& described) {
  gpu& unit = described.gpu;
  double fastest = 0;
  double host = 0;
  for (const link& edge : described.links) {
    const double rate = copy_bytes_per_s(edge);
    if (edge.a.kind == endpoint_kind::gpu || edge.b.kind == endpoint_kind::gpu)
      fastest = std::max(fastest, rate);
    if (edge.a.kind == endpoint_kind::host || edge.b.kind == endpoint_kind::host) host += rate;
  }
  const auto assume = [](auto& figure, auto value) {
    if (figure == 0) figure = value;
  };
  assume(unit.copy_setup_ps, std::uint64_t{2'600'000});
  assume(unit.copy_launch_ps, std::uint64_t{1'600'000});
  assume(unit.copy_event_ps, std::uint64_t{2'000'000});
  assume(unit.copy_event_latency_ps, std::uint64_t{6'700'000});
  assume(unit.copy_engines, 2U);
  assume(unit.copy_bytes_per_s, fastest);
  // This rate is larger than the rate of any link, so it limits no plan. (Copies inside a GPU are
  // not planned.)
  assume(unit.dram.bytes_per_s, 8 * fastest);
  assume(described.host.memory_bytes_per_s, host);
}

}  // namespace interlace::machine
